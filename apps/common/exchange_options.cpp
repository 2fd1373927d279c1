#include "apps/common/exchange_options.hpp"

#include "apps/common/verb.hpp"
#include "comm/communicators.hpp"
#include "engine/base/error.hpp"

namespace keelson::app {

void declare(RequestedExchange& o, Verb& v) {
  constexpr double most = 1024;
  v.option("--bucket-mb", o.bucket_mb,
           "MiB of gradients that ranks exchange at once, beside the backward pass; 0: what measures best", "MIB")
      .between(0, most)
      .stored();
  v.option("--wire", o.wire,
           "Numbers that travel between nodes: fp32; or bf16 or fp16, where each rank adds what rounding took away to "
           "its next step's gradients",
           "TYPE")
      .one_of({"fp32", "bf16", "fp16"})
      .stored();
  v.option(
       "--progress", o.progress,
       "What lets the exchange advance while ops compute: calls between two ops, or a thread beside; auto: what makes "
       "faster steps, measured in the first ones",
       "WAY")
      .one_of({"auto", "calls", "thread"})
      .not_stored();
  v.flag("--reproducible", o.reproducible,
         "The same bits for any number of ranks: samples are computed one by one and summed in a fixed order. Slower; "
         "ranks and samples per rank are powers of two, and every run has as many threads per rank (OMP_NUM_THREADS)")
      .stored();
}

ExchangeOptions decide(const RequestedExchange& requested, Communicator& ranks) {
  ExchangeOptions o;
  o.wire = requested.wire == "bf16" ? Wire::bf16 : requested.wire == "fp16" ? Wire::fp16 : Wire::fp32;
  constexpr double mebi = 1024 * 1024;
  o.bucket_bytes = requested.bucket_mb > 0 ? static_cast<std::size_t>(requested.bucket_mb * mebi)
                                           : comm::choose_bucket_bytes(ranks, o.wire);
  o.reproducible = requested.reproducible;
  return o;
}

ProgressBy progress_by(const RequestedExchange& requested) {
  if (requested.progress == "auto") return ProgressBy::measured;
  return requested.progress == "thread" ? ProgressBy::thread : ProgressBy::calls;
}

void check(const RequestedExchange& requested, const std::string& precision) {
  if (requested.reproducible && precision == "auto")
    refuse(
        "--precision auto takes what has measured faster, so --reproducible cannot be had with it: give the "
        "precision "
        "by name");
}

}  // namespace keelson::app
