"""The processors that machine code was compiled for, and whether the code runs on this processor.

numba compiles for the exact processor that it runs on: its name and each of its features are part of the key of a
compiled kernel, so a cache from one machine is useless on most others. The names below stand for common feature sets:
code compiled for one of them, without further features, runs on every processor with that feature set.
"""

from __future__ import annotations

import subprocess
import sys
from functools import cache

_V2 = frozenset({"cx16", "popcnt", "sahf", "sse3", "sse4.1", "sse4.2", "ssse3"})
_V3 = _V2 | {"avx", "avx2", "bmi", "bmi2", "f16c", "fma", "lzcnt", "movbe"}
_V4 = _V3 | {"avx512bw", "avx512cd", "avx512dq", "avx512f", "avx512vl"}

NEEDS = {"x86-64-v4": _V4, "x86-64-v3": _V3, "x86-64-v2": _V2, "x86-64": frozenset[str](), "generic": frozenset[str]()}
"""The features that a processor needs to run code for each common name, the most demanding name first."""

_ASK_LLVM = """
import sys, llvmlite.binding as llvm
for initialize in (llvm.initialize_native_target, llvm.initialize_native_asmprinter):
    initialize()
llvm.Target.from_default_triple().create_target_machine(cpu=sys.argv[1])
"""


@cache
def features_here() -> frozenset[str]:
    """Return the features of this processor that numba uses, in LLVM's notation."""
    from numba.core.codegen import get_host_cpu_features

    return enabled_features(get_host_cpu_features())


def enabled_features(features: str) -> frozenset[str]:
    """Return the enabled features in LLVM's list.

    >>> sorted(enabled_features("+avx,-avx512f,+fma"))
    ['avx', 'fma']
    """
    return frozenset(word[1:] for word in features.split(",") if word.startswith("+"))


@cache
def common_names_here() -> tuple[str, ...]:
    """Return the common names whose code runs on this processor, the most demanding name first."""
    return tuple(name for name, needed in NEEDS.items() if needed <= features_here())


def is_known(name: str) -> bool:
    """Return whether LLVM has a processor of that name for this architecture. Takes a tenth of a second."""
    # For an unknown name, LLVM only prints a warning on stderr, and compiles for another processor.
    result = subprocess.run([sys.executable, "-c", _ASK_LLVM, name], capture_output=True, text=True, check=False)
    return result.returncode == 0 and "not a recognized processor" not in result.stderr


def difference(made_for: tuple[str, str], this_processor: tuple[str, str]) -> str:
    """Return the difference between the processor (name, features) of compiled kernels and this one, in words.

    >>> difference(("skylake", "+avx"), ("znver3", "+avx"))
    'made for processor skylake, this is znver3'
    >>> difference(("skylake", "+avx,+adx"), ("skylake", "+avx,-adx"))
    'made for processor skylake with adx, this one is without'
    """
    if made_for[0] != this_processor[0]:
        return f"made for processor {made_for[0]}, this is {this_processor[0]}"
    its_features, here_features = enabled_features(made_for[1]), enabled_features(this_processor[1])
    more, less = its_features - here_features, here_features - its_features
    if more:
        return f"made for processor {this_processor[0]} with {_some(more)}, this one is without"
    return f"made for processor {this_processor[0]} without {_some(less)}, this one is with"


def _some(features: frozenset[str]) -> str:
    names = sorted(features)
    return ", ".join(names[:3]) + (", …" if len(names) > 3 else "")
