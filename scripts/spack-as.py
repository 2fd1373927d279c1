"""spack python spack-as.py TARGET ARGUMENTS...: Spack's command as on a machine with the processor TARGET, with this machine's compilers
and system. It can plan for a processor of another family (power9le), but such plans cannot be built here."""

import platform
import sys

import spack.archspec
import spack.platforms
import spack.vendor.archspec.cpu as cpu

target = cpu.TARGETS[sys.argv[1]]
cpu.host = lambda: target
platform.machine = lambda: target.family.name
spack.platforms.host().default = target.name
spack.archspec.HOST_TARGET_FAMILY = target.family

import spack.main  # noqa: E402, must come after the changes above

sys.exit(spack.main.main(sys.argv[2:]))
