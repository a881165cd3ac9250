from .activations import activate as activate, backward as backward, placeless as placeless
from .checkpoint import NO_CHECKPOINT as NO_CHECKPOINT, Checkpoint as Checkpoint
from .devices import Device as Device, free_memory as free_memory, resolve_device as resolve_device
from .products import aligned as aligned, dot as dot, product as product, sum_of_few as sum_of_few
from .streams import Purpose as Purpose, Step as Step, Streams as Streams
