#pragma once

#include <algorithm>
#include <cstddef>
#include <memory>
#include <vector>

#include "engine/ops/device.hpp"

namespace keelson::testing {

/// An array in a device's memory; without a device, in the host's.
template <class T>
class DeviceArray {
 public:
  DeviceArray(Device& device, std::size_t count) : DeviceArray(&device, count) {}
  DeviceArray(Device* device, std::size_t count)
      : device_(device),
        count_(count),
        memory_(device != nullptr ? device->allocate(count * sizeof(T), "array") : std::make_shared<T[]>(count)) {}
  T* data() const { return static_cast<T*>(memory_.get()); }
  std::size_t size() const { return count_; }
  void operator=(const std::vector<T>& values) {
    if (device_ != nullptr)
      device_->copy_from_host(data(), values.data(), count_ * sizeof(T));
    else
      std::copy_n(values.begin(), count_, data());
  }
  std::vector<T> values() const {
    std::vector<T> v(count_);
    if (device_ != nullptr)
      device_->copy_to_host(v.data(), data(), count_ * sizeof(T));
    else
      std::copy_n(data(), count_, v.begin());
    return v;
  }

 private:
  Device* device_;
  std::size_t count_;
  std::shared_ptr<void> memory_;
};

}  // namespace keelson::testing
