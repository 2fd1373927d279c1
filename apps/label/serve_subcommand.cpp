#include <fmt/format.h>

#include "apps/common/subcommand.hpp"
#include "apps/label/serve/server.hpp"
#include "apps/label/subcommands.hpp"
#include "engine/base/error.hpp"
#include "engine/base/interrupt.hpp"

namespace keelson::label {
namespace {

struct ServeOptions {
  std::string project, annotator = "me";
  std::int64_t port = 0;
};

ExitCode serve(const ServeOptions& o, app::Launch& launch) {
  if (launch.world.size() > 1) refuse("keelson-label serve runs on one rank; leave mpirun out");
  if (o.project.empty()) refuse("give --project: the folder of keelson-label start");
  Project project(o.project, true);
  const auto images = project.open_images();
  LabelServer server(project, *images, static_cast<int>(o.port), o.annotator);
  Interrupt::install();
  fmt::print("open {}\n(from another machine: ssh -L PORT:127.0.0.1:PORT, with the PORT of this address)\n",
             server.address());
  std::fflush(stdout);
  server.run([] { return Interrupt::requested(); });
  return ExitCode::done;
}

}  // namespace

void define_serve(app::CommandLine& line) {
  auto o = std::make_shared<ServeOptions>();
  auto& v = line.subcommand("serve", "Show a page on which to label, to browsers on this machine, until Ctrl-C",
                            [o](app::Launch& launch) { return serve(*o, launch); });
  v.option_without_default("--project", o->project, "Folder of the project", "DIR");
  v.option("--port", o->port, "Port on the loopback address; 0: any that is free", "PORT").between(0, 65535);
  v.option("--annotator", o->annotator, "Name of who labels; the page can change it", "NAME");
}

}  // namespace keelson::label
