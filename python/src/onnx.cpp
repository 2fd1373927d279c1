#include <nanobind/stl/filesystem.h>

#include "casters.hpp"
#include "engine/onnx/export.hpp"
#include "objects.hpp"

namespace keelson::python {

void bind_onnx(nb::module_& m) {
  m.def(
      "export_onnx",
      [](NetworkParameters& parameters, const std::filesystem::path& file, const std::string& doc,
         std::map<std::string, std::string> metadata) {
        const OnnxOptions o{.name = parameters.network->name, .doc = doc, .metadata = std::move(metadata)};
        std::filesystem::path data;
        {
          const nb::gil_scoped_release release;
          const Turn turn(parameters);
          data = export_onnx(parameters.network->graph, parameters.values, file, o).data;
        }
        return data.empty() ? nb::none() : nb::cast(data);
      },
      nb::arg("parameters"), nb::arg("file"), nb::kw_only(), nb::arg("doc") = "",
      nb::arg("metadata") = std::map<std::string, std::string>(),
      nb::sig("def export_onnx(parameters: Parameters, file: str | os.PathLike, *, doc: str = '', metadata: "
              "collections.abc.Mapping[str, str] = {}) -> pathlib.Path | None"),
      "Writes the network and its present values as an ONNX model (opset 17), which predicts what Inference does, with "
      "a\n"
      "symbolic batch. A recurrent state is an input, and its next value an output of that name with '_next'. "
      "metadata:\n"
      "texts for programs. Returns the path of a second file where the model is too large for one. Called by one "
      "rank.");
}

}  // namespace keelson::python
