from .cost import (
    ASSUMED_RATE as ASSUMED_RATE,
    CALL_EFFORT as CALL_EFFORT,
    GPU_CALL_OPERATIONS as GPU_CALL_OPERATIONS,
    GPU_FIXED_BYTES as GPU_FIXED_BYTES,
    GPU_RATE as GPU_RATE,
    evaluation_operations as evaluation_operations,
    memory_bytes as memory_bytes,
    step_cost as step_cost,
    step_operations as step_operations,
)
from .descent import Descent as Descent, UpdateRule as UpdateRule, rule_of as rule_of
from .pack import load_engine as load_engine, one_thread as one_thread, train_pack as train_pack
from .stack import initial_weights as initial_weights
