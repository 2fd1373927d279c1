#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

/// The layers of the MINERvA detector along its axis z, as the experiment numbers them: modules -5 to 114, of which
/// those below 95 have two planes of scintillator, the first U and V by turns, the second X; five targets take the
/// places of modules; a tank of water stands behind module 14. Sources: Terwilliger et al., IJCNN 2017; Perdue et al.,
/// arXiv 1808.08332. Lengths in mm, densities in g/cm^3.
namespace keelson::minerva {

inline constexpr int strips = 127;            ///< of a plane
inline constexpr double strip_pitch = 16.75;  ///< half of a triangle's base of 33.5: neighbours overlap
inline constexpr double plane_pitch = 22.5, plane_thickness = 17;  ///< along z
inline constexpr double fiducial_apothem = 850;                    ///< of the hexagon that vertices lie in
inline constexpr double detector_apothem = 1070;                   ///< of the hexagon that strips cover
inline constexpr int last_vertex_code = 120;                       ///< simulated vertices lie upstream of its end

/// Which coordinate the strips of a plane measure: x, x/2 + sqrt(3)/2 y, or x/2 - sqrt(3)/2 y.
enum class View : std::uint8_t { x, u, v };
inline constexpr std::array view_names{"x", "u", "v"};
/// This coordinate of a point.
double coordinate(View view, double x, double y);
/// Whether a point lies in the hexagon of this apothem, whose sides are perpendicular to the three coordinates.
bool is_in_hexagon(double x, double y, double apothem);

/// What fills a layer at some place.
struct Material {
  double density = 0, thickness = 0;
  double radiation_length = 43.8;                            ///< g/cm^2
  double grams() const { return density * thickness / 10; }  ///< per cm^2, along z
};

enum class LayerKind : std::uint8_t { plane, target, water };

/// A layer of the detector.
struct DetectorLayer {
  LayerKind kind = LayerKind::plane;
  int module = 0;
  int number = 0;             ///< of a plane in its module, from 1; of a target, from 1
  double begin = 0, end = 0;  ///< along z, of the thickest material
  int code = 0;               ///< its planecode; 0: it has none (water)
  int segment = 0;            ///< see segment_names
  View view = View::x;        ///< of a plane
  int column = -1;            ///< of a plane, in the images of its view; -1: of the hadron calorimeter, in none
  double middle() const { return (begin + end) / 2; }
};

/// Names of the segments along z: 0 before the first target, 1 the first target, 2 the planes behind it, ..., 9 the
/// last target, 10 all that is downstream. That 10 is downstream is published, the order of the others is not.
const std::array<std::string, 11>& segment_names();

/// All layers from upstream to downstream.
class Detector {
 public:
  /// `water`: whether the tank is filled. The tank has no planecode of its own: a vertex in it has code 0, "unknown".
  explicit Detector(bool water = true);
  const std::vector<DetectorLayer>& layers() const { return layers_; }  ///< in the order of z
  int codes() const { return codes_; }                                  ///< with code 0
  /// What a layer is made of at this place: targets are divided into sectors.
  Material material(const DetectorLayer& layer, double x, double y) const;
  /// The layer of a code from 1.
  const DetectorLayer& of_code(int code) const { return layers_[of_code_[static_cast<std::size_t>(code)]]; }
  /// The layer of a column of a view's images.
  const DetectorLayer& of_column(View view, int column) const {
    return layers_[of_column_[static_cast<std::size_t>(view)][static_cast<std::size_t>(column)]];
  }
  /// The columns of a view.
  int columns(View view) const { return static_cast<int>(of_column_[static_cast<std::size_t>(view)].size()); }

 private:
  void add(const DetectorLayer& layer, double thickness);

  bool water_;
  double z_;
  int codes_ = 1, segment_ = 0;
  std::vector<DetectorLayer> layers_;
  std::vector<std::size_t> of_code_{0};
  std::array<std::vector<std::size_t>, 3> of_column_;
};

}  // namespace keelson::minerva
