#pragma once

namespace keelson::app {

/// What a program does before its libraries start (MPI's takes up to half a second). Called by the loader (an
/// entry of .preinit_array) and once more by run_app(), where the loader knows no such entries; then it changes
/// nothing.
///
/// 1. SIGTERM, SIGINT and SIGUSR1 end the program at once, with exit code 75: nothing is lost yet, and a batch script
///    that queues a job again at 75 does the right thing. A verb that can end well when asked to calls
///    Interrupt::install() when its work begins. Signals that the user ignores (nohup) stay ignored.
/// 2. OpenMP's threads sleep when they have waited for some 20 microseconds. By default those of GCC's OpenMP spin for
///    milliseconds, and where another job shares the cores, each then takes the time that the other's work needs: two
///    jobs side by side ran 4 to 8 times slower instead of 2. On cores of its own a program loses nothing that can be
///    measured (docs/performance.md). The library reads GOMP_SPINCOUNT when it is loaded, so this sets the variable and
///    starts the program anew in the same process; not where the user has set GOMP_SPINCOUNT or OMP_WAIT_POLICY, or
///    where another OpenMP library is in use.
///
/// Nothing may be called here that needs an initialised library.
void before_main(int argc, char** argv, char** environment);

}  // namespace keelson::app
