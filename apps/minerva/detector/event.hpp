#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "apps/minerva/detector/detector.hpp"
#include "engine/base/draws.hpp"

/// Simulated interactions of neutrinos in the detector. The physics is a simplification of its own: straight tracks of
/// a muon, protons, charged pions and the showers of neutral pions, with losses of energy by mean formulas. So figures
/// on these events are not those on the experiment's. Energies in MeV, lengths in mm, times in ns.
namespace keelson::minerva {

/// Light that one strip has seen.
struct Hit {
  View view = View::x;
  int column = 0, strip = 0;
  double energy = 0;  ///< MeV
  double time = 0;    ///< ns, relative to the event's median
};

/// A neutrino's interaction, as the detector has recorded it.
struct Event {
  int planecode = 0;  ///< 0 in water
  int segment = 0;
  double x = 0, y = 0, z = 0;  ///< of the vertex, mm
  std::vector<Hit> hits;       ///< in the order of view, column, strip; those of the hadron calorimeter are left out
};

/// Makes events. Holds memory for one, so each thread needs its own.
class EventMaker {
 public:
  explicit EventMaker(const Detector& detector);  ///< `detector` must outlive this
  /// Event `index` of a set: the same for the same seed, set, index and detector, anywhere.
  Event make(std::uint64_t seed, const std::string& set, std::int64_t index);

 private:
  struct Track {
    double x = 0, y = 0, z = 0;     ///< where it begins
    double dx = 0, dy = 0, dz = 1;  ///< direction, of length 1
    double time = 0;
  };
  /// How a particle loses its energy. step(grams per cm^2, X0) returns the energy that it leaves in a path of this
  /// mass; a negative number: the particle has stopped before.
  template <class Step>
  void fly(const Track& track, const Step& step, double spread);
  void deposit(const DetectorLayer& plane, double x, double y, double energy, double time);
  /// A particle that loses about 2 MeV per g/cm^2 until its range (g/cm^2) ends.
  void add_minimum_ionizing(const Track& track, double range);
  void add_muon(const Track& track, double energy);
  void add_proton(const Track& track, double energy);
  void add_pion(const Track& track, double energy);
  void add_photon(const Track& track, double energy);
  void add_neutral_pion(const Track& vertex);
  Track directed(const Track& from, double cosine, double azimuth) const;
  void place_vertex(Event& event);
  void add_rock_muon();
  void read_out(Event& event);

  struct Cell {
    float energy = 0, time = 0;
  };

  const Detector& detector_;
  std::vector<Cell> cells_;            ///< (layers, strips)
  std::vector<std::int32_t> touched_;  ///< cells that are not zero
  Draws draws_{philox::Key{}};
};

/// The share of a track's light at this coordinate that the strip `first` sees; the next strip sees the rest.
struct StripShare {
  int first = 0;
  double share = 0;  ///< of `first`
};
StripShare strip_share(double coordinate);

/// Range in g/cm^2 of a proton with this energy, and back.
double proton_range(double energy);
double proton_energy(double range);

/// How wide the images of a view are.
enum class ImageSize : std::uint8_t {
  cropped,  ///< 50, 25, 25 columns: targets and the upstream part of the tracker
  full      ///< 94, 47, 47: all but the hadron calorimeter
};
std::int64_t columns_of(ImageSize size, View view);

/// Writes an image (channels, strips, columns) of one view. Channels: energy, then time. Hits beyond the columns are
/// left out.
void draw(const Event& event, View view, std::int64_t columns, std::int64_t channels, std::span<float> image);

}  // namespace keelson::minerva
