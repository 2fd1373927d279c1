#pragma once

#include <functional>

namespace keelson::climate {

/// work(thread, row) for each row from 0 to rows - 1, by `threads` threads that take the next row when they are done
/// with one; the calling thread is thread 0. What `work` throws is thrown here, once all threads have ended. Results do
/// not depend on the number of threads where each row's work writes memory of its own.
void for_each_row(int threads, int rows, const std::function<void(int thread, int row)>& work);

}  // namespace keelson::climate
