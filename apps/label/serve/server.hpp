#pragma once

#include <functional>
#include <memory>
#include <string>

#include "apps/label/project/project.hpp"

namespace keelson::label {

/// The page of a project, for browsers on this machine: it listens on the loopback address alone. A request must name
/// this address in its header Host (so that no name of another site leads here), must not come from a page of another
/// origin, and must have the token. Nothing on the disk is served but pictures of the project's images. A label is
/// acknowledged after it is on the disk.
class LabelServer {
 public:
  /// Binds the port; 0: any that is free. Throws InputError for a port that cannot be bound, and in a build without
  /// cpp-httplib. `project` and `images` must outlive the server.
  LabelServer(Project& project, const Images& images, int port, const std::string& annotator);
  ~LabelServer();
  LabelServer(const LabelServer&) = delete;

  std::string address() const;  ///< with the token: for a browser
  /// Answers requests until `ends` returns true; it is called every 50 ms.
  void run(const std::function<bool()>& ends);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace keelson::label
