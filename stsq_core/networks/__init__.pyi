from .attention import AttentionNetwork as AttentionNetwork
from .bit_attention import BitAttentionNetwork as BitAttentionNetwork
from .fcn import FcnNetwork as FcnNetwork
from .feedforward import FeedforwardNetwork as FeedforwardNetwork
from .recurrent import RecurrentNetwork as RecurrentNetwork
from .transformer_mlp import TransformerMlpNetwork as TransformerMlpNetwork
