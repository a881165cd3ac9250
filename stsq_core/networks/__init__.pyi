from .network import Network as Network
from .network_program import NetworkProgram as NetworkProgram, network_of as network_of
