#pragma once

#include <Kokkos_Core.hpp>
#include <string>

#include "backends/common/loops.hpp"
#include "backends/kokkos/common/instance.hpp"
#include "engine/base/align.hpp"
#include "engine/ops/primitive.hpp"

/// The common part of all kernels of the Kokkos backend. Kernels are free functions and functors over raw pointers in
/// the memory space of Kokkos' default execution space. Kernels run on the current instance (space()).
namespace keelson::kokkos {

using Index = std::int64_t;
using Range = Kokkos::RangePolicy<Space, Kokkos::IndexType<Index>>;

/// On a CPU a work item takes a run of elements, which the compiler vectorises. On a GPU a work item takes one element,
/// or 16 bytes, so that neighbouring threads access neighbouring addresses. A build with KEELSON_DEVICE_PATHS takes the
/// paths of a GPU on a CPU, to test them.
#ifdef KEELSON_DEVICE_PATHS
inline constexpr bool runs_on_host = false;
#else
inline constexpr bool runs_on_host = runs_on_cpu;
#endif

constexpr Index ceil_div(Index a, Index b) { return (a + b - 1) / b; }

/// The label, or "" if no tool listens: Kokkos copies labels to std::string, and most copies would allocate.
inline std::string heard(const char* label) { return Kokkos::Tools::profileLibraryLoaded() ? label : std::string(); }

/// functor(i) for 0 <= i < items, on the current execution instance. Light weight: on a GPU the functor is an argument
/// of the kernel. Kokkos passes larger functors through constant memory, where a launch waits for the kernel before and
/// reads a buffer that the next launch overwrites, which a recording must not do. Throws Error if the device refused
/// the launch: Kokkos' release builds do not look. On one thread of a CPU the loop runs here: small networks have
/// kernels that take less time than Kokkos' start of a loop.
template <class Functor>
void launch(const char* label, Index items, const Functor& functor) {
  static_assert(sizeof(Functor) < 3584, "a kernel's argument has at most 4 KiB");
  if constexpr (runs_on_host)
    if (current_instance().is_one_thread() && !Kokkos::Tools::profileLibraryLoaded()) {
      for (Index i = 0; i < items; ++i) functor(i);
      return;
    }
  constexpr auto light = Kokkos::Experimental::WorkItemProperty::HintLightWeight;
  Kokkos::parallel_for(heard(label), Kokkos::Experimental::require(Range(space(), 0, items), light), functor);
  current_instance().check_launch(label);
}

inline void fence(const char* label) { space().fence(heard(label)); }

/// Runs body(begin, end) for blocks that cover [0, n).
template <class Body>
struct BlockFunctor {
  Body body;
  Index n, block;
  KOKKOS_FUNCTION void operator()(Index i) const {
    const Index begin = i * block;
    body(begin, begin + block < n ? begin + block : n);
  }
};

template <class Body>
void for_each_block(const char* label, Index n, const Body& body, Index host_block = 4096, Index device_block = 1) {
  const Index block = runs_on_host ? host_block : device_block;
  launch(label, ceil_div(n, block), BlockFunctor<Body>{body, n, block});
}

/// Extents and element strides of a strided tensor; kernels get a copy.
struct Strided {
  int rank = 0;
  Index extents[max_rank] = {}, strides[max_rank] = {};

  Strided() = default;
  Strided(const Shape& shape, const Layout& layout) : rank(shape.rank()) {
    for (int i = 0; i < rank; ++i) extents[i] = shape[i], strides[i] = layout.strides()[i];
  }
  explicit Strided(const TensorDesc& d) : Strided(d.shape, d.layout) {}
  explicit Strided(const Tensor& t) : Strided(t.desc()) {}

  /// Memory offset of element number `linear` in row-major logical order.
  KOKKOS_FUNCTION Index offset(Index linear) const {
    Index at = 0;
    for (int i = rank - 1; i >= 0; --i) {
      at += linear % extents[i] * strides[i];
      linear /= extents[i];
    }
    return at;
  }
};

/// Calls the body for each element, for layouts with gaps.
template <class Body>
struct Gapped {
  Body body;
  Strided at;
  KOKKOS_FUNCTION void operator()(Index begin, Index end) const {
    for (Index i = begin; i < end; ++i) {
      const Index o = at.offset(i);
      body(o, o + 1);
    }
  }
};

/// Element-wise work on operands with the layout of `t`. A dense layout is processed as a flat array (with its
/// padding), on a GPU `device_block` elements at once.
template <class Body>
void for_each_element(const char* label, const Tensor& t, const Body& body, Index device_block = 1) {
  if (t.layout().is_dense(t.shape()))
    for_each_block(label, t.stored_elements(), body, 4096, device_block);
  else
    for_each_block(label, t.elements(), Gapped<Body>{body, Strided(t)});
}

/// A batch of up to three spatial dims as five dims (N, C, D, H, W). Missing spatial dims come first and have extent 1.
struct Volume {
  Index n, c, extent[3];
  Index stride_n, stride_c, stride[3];

  Volume(const Shape& shape, const Layout& layout)
      : n(shape[0]),
        c(shape[1]),
        extent{1, 1, 1},
        stride_n(layout.strides()[0]),
        stride_c(layout.strides()[1]),
        stride{0, 0, 0} {
    const int spatial = shape.rank() - 2;
    for (int i = 0; i < spatial; ++i) {
      extent[3 - spatial + i] = shape[2 + i];
      stride[3 - spatial + i] = layout.strides()[2 + i];
    }
  }
};

/// An entry per spatial dim as three entries, filled up with `missing` at the front.
inline Kokkos::Array<Index, 3> three(const Shape& s, Index missing) {
  Kokkos::Array<Index, 3> a = {missing, missing, missing};
  for (int i = 0; i < s.rank(); ++i) a[3 - s.rank() + i] = s[i];
  return a;
}

/// "" if the kernels can read the tensor, else the reason why not. `any` passes: it is a request.
inline std::string not_strided_f32(const char* name, const TensorDesc& d) {
  if (d.dtype != DType::f32) return fmt::format("{} is {}, not f32", name, to_string(d.dtype));
  if (d.layout.is_opaque()) return fmt::format("{} has the layout {} of another backend", name, d.layout.to_string());
  return "";
}

inline Layout chosen(const TensorDesc& d, const Layout& preferred) { return d.layout.is_any() ? preferred : d.layout; }

/// A dense layout of `shape`, channels-last or plain as `like` is.
inline Layout same_order(const TensorDesc& like, const Shape& shape) {
  const bool plain = like.layout.is_plain(like.shape) && !like.layout.is_channels_last(like.shape);
  const bool channels_first = plain || (like.shape[1] > 1 && like.layout.strides()[1] != 1);
  return channels_first ? Layout::plain(shape) : Layout::channels_last(shape);
}

}  // namespace keelson::kokkos
