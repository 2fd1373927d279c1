#pragma once

namespace keelson::app {

/// Prepares the process before its libraries start (MPI takes up to half a second to start). The loader calls this
/// function (as an entry of .preinit_array). run_app() calls it again for loaders without such entries; a second call
/// changes nothing.
///
/// 1. SIGTERM, SIGINT and SIGUSR1 end the program at once, with exit code 75: nothing is lost yet, and a batch script
///    that queues a job again at 75 does the right thing. A subcommand that can end well when asked to calls
///    Interrupt::install() when its work begins. Signals that the user ignores (nohup) stay ignored.
/// 2. OpenMP's threads sleep after they have waited for some 20 microseconds. By default the threads of GCC's OpenMP
///    spin for milliseconds. If two jobs share cores, the spinning threads of one job then take time from the work of
///    the other: two jobs side by side ran 4 to 8 times slower instead of 2 times. A program with cores of its own
///    loses nothing that can be measured (docs/performance.md). The library reads GOMP_SPINCOUNT when it is loaded, so
///    this function sets the variable and starts the program again in the same process. It does not do so if the user
///    has set GOMP_SPINCOUNT or OMP_WAIT_POLICY, or if another OpenMP library is in use.
///
/// This function must not call anything that needs an initialised library.
void before_main(int argc, char** argv, char** environment);

}  // namespace keelson::app
