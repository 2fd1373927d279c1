#include "example.hpp"  // from docs/cpp.md

#include <cstdio>

int main() {
  backends::Runtime runtime;
  const auto context = backends::make_context();
  const double first = train(*context, 1), last = train(*context, 100);
  std::printf("loss %g after 1 step, %g after 100\n", first, last);
  return last < first / 10 ? 0 : 1;
}
