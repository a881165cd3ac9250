"""The feedforward net on a whole prompt, as in the authors' code of arXiv:2503.11272; starts as `torch.nn.Linear` does."""

from itertools import pairwise

import torch

from stsq_core.configs import Ffn
from stsq_core.networks.layers import initial_layer, relu_net
from stsq_core.networks.network import Network
from stsq_core.programs import Tensors
from stsq_core.tasks import Batch, Source


class FeedforwardNetwork(Network):
    """Layers `W1, W2, ..`, biases in the column after the inputs."""

    @property
    def shapes(self) -> list[tuple[int, int]]:
        """(units, inputs) of each layer."""
        model = self.configs[0].model
        assert isinstance(model, Ffn)
        units = (*model.units(self.task), self.examples.num_outputs * self.examples.output_size)
        return [(outputs, inputs) for inputs, outputs in pairwise(units)]

    def initial(self) -> Tensors:
        start = self.start()
        return {
            f"W{layer}": initial_layer(start, f"W{layer}", units=units, inputs=inputs)
            for layer, (units, inputs) in enumerate(self.shapes, 1)
        }

    def outputs(self, parameters: Tensors, batch: Batch, source: Source) -> torch.Tensor:
        prompt = self.examples.prompt(batch, source).flatten(2)
        if prompt.shape[2] != (inputs := self.shapes[0][1]):
            raise ValueError(
                f"a feedforward net reads prompts of {inputs} numbers in all; got {prompt.shape[2]}: leave T_test out"
            )
        outputs = relu_net(prompt, list(parameters.values()))
        return outputs.view(*prompt.shape[:2], self.examples.num_outputs, -1)
