#pragma once

#include <functional>

namespace keelson::climate {

/// Calls work(thread, row) for each row from 0 to rows - 1 in `threads` threads; a thread that has finished a row takes
/// the next one. The calling thread is thread 0. An exception of `work` is thrown again here, after all threads have
/// ended. Results do not depend on the number of threads if the work of each row writes only its own memory.
void for_each_row(int threads, int rows, const std::function<void(int thread, int row)>& work);

}  // namespace keelson::climate
