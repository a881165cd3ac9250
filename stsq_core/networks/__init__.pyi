from .module import ModuleNetwork as ModuleNetwork, is_model as is_model, model_of as model_of
from .network import Network as Network
from .network_program import NetworkProgram as NetworkProgram, network_of as network_of
