"""Builds the machine code that an H100 would run, on a machine without one, and prints what the assembler says of it.

    python tests/stsq_core/build_for_hopper.py

One line a kernel: its name, registers of a thread, bytes of stack and of local memory (spills), instructions. Must not run in
Triton's interpreter. Builds every kernel of a step at the shape of the benchmark, and in float64 at a small one.
"""

import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import torch
import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from stsq_core import TrialConfig
from stsq_core.kernels import cuda
from stsq_core.programs import program as programs
from stsq_core.training.descent import Descent
from stsq_core.training.stack import build_program

HOPPER = GPUTarget("cuda", 90, 32)
TOOLS = Path(triton.__file__).parent / "backends" / "nvidia" / "bin"
TYPES = {torch.float32: "*fp32", torch.float64: "*fp64", torch.int64: "*i64", torch.bool: "*i1"}
ALIGNED = [["tt.divisibility", 16]]

built: set[tuple[Any, ...]] = set()


def build(kernel: Any, grid: tuple[int, ...], *arguments: Any, warps: int = 4, **constants: Any) -> None:
    """In the place of a launch."""
    signature = dict.fromkeys(kernel.arg_names, "constexpr")
    attributes = {}
    for place, (name, argument) in enumerate(zip(kernel.arg_names, arguments, strict=False)):
        if isinstance(argument, torch.Tensor):
            signature[name] = TYPES[argument.dtype]
        elif argument == 1:
            constants[name] = 1
            continue
        else:
            signature[name] = "i32"
        if isinstance(argument, torch.Tensor) or argument % 16 == 0:
            attributes[(place,)] = ALIGNED
    same = (kernel.__name__, warps, *signature.items(), *constants.items(), *attributes)
    if same in built:
        return
    built.add(same)
    source = ASTSource(kernel, signature, constants, attributes)
    options = {"num_warps": warps, "num_stages": 1, "enable_fp_fusion": True}
    code = triton.compile(source, target=HOPPER, options=options).asm["cubin"]
    kind = "float64" if "*fp64" in {signature.get("N"), signature.get("parameter")} else "float32"
    print(kernel.__name__, kind, *usage(code), flush=True)


def usage(code: bytes) -> tuple[str, ...]:
    """Registers, stack, local memory, instructions; question marks where the tool that counts them is missing."""
    if not (TOOLS / "cuobjdump").exists():
        return ("?",) * 4
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(code)
        file.flush()

        def ask(what: str) -> str:
            return subprocess.run([TOOLS / "cuobjdump", what, file.name], capture_output=True, text=True, check=True).stdout

        counts = dict(re.findall(r"(REG|STACK|LOCAL):(\d+)", ask("-res-usage")))
        instructions = len(re.findall(r"^\s+/\*[0-9a-f]{4,}\*/", ask("-sass"), re.MULTILINE))
    return counts["REG"], counts["STACK"], counts["LOCAL"], str(instructions)


def main() -> int:
    cuda.launch = build
    programs.kernels_for = cuda.CudaKernels
    adam, gd = {"kind": "adam", "lr": 0.01}, {"kind": "gd", "lr": 0.1}
    for size, dtype in (((200, 3, 5, 64, 256), "float32"), ((20, 2, 2, 8, 32), "float64")):
        T, q, d, d_e, batch = size
        task = {"kind": "stsq", "T": T, "q": q, "d": d}
        training = {"batch_size": batch, "steps": 10, "dtype": dtype}
        codes = {"kind": "random_sign", "d_e": d_e, "query": "dual"}
        for objective, optimizer in (("minibatch", adam), ("population", gd)):
            trials = tuple(
                TrialConfig.model_validate(
                    {
                        "task": task,
                        "model": {"kind": "transformer", "positions": codes},
                        "optimizer": optimizer,
                        "training": training | {"objective": objective},
                        "seed": seed,
                    }
                )
                for seed in range(128)
            )
            program = build_program(trials, torch.device("meta"))
            descent = Descent(tuple(t.optimizer for t in trials), 10, dtype=program.dtype, kernels=program.kernels)
            parameters, step = program.initial(), torch.zeros(1, dtype=torch.int64, device="meta")
            _, gradients = program.gradients(parameters, step)
            descent.update(parameters, gradients, descent.moments(parameters), step)
    draws = program.streams.draws(programs.Purpose.INIT, 0)
    program.kernels.uniforms(draws, numbers=1000, dtype=torch.float32)
    codes, y = torch.empty((8, 64, 32), device="meta"), torch.empty((8, 64, 10), dtype=torch.int64, device="meta")
    program.kernels.dual(codes, y)
    hidden, hot = torch.empty((32, 512, 512), device="meta"), torch.empty((32, 512, 32), device="meta")
    program.kernels.layer(hidden, hot, columns=560, rectify=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
