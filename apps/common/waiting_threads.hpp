#pragma once

namespace keelson::app {

/// Makes OpenMP's threads sleep when they have waited for some 20 microseconds. By default those of GCC's OpenMP spin
/// for milliseconds, and where another job shares the cores, each then takes the time that the other's work needs: two
/// jobs side by side ran 4 to 8 times slower instead of 2. On cores of its own a program loses nothing that can be
/// measured (docs/performance.md).
///
/// The library reads the variable GOMP_SPINCOUNT when it is loaded, before main(). So this sets it and starts the
/// program anew in the same process. It does nothing where the user has set GOMP_SPINCOUNT or OMP_WAIT_POLICY, or where
/// another OpenMP library is in use. Call it first in main().
void let_waiting_threads_sleep(char** argv);

}  // namespace keelson::app
