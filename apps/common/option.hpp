#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace keelson::app {

/// One option of a subcommand: the variable that gets the value, and the values that are accepted. Subcommand::option()
/// makes an option. The functions below restrict it and return it, e.g. `subcommand.option("--lr", o.lr, "Learning
/// rate", "RATE").positive().stored()`.
///
/// Numbers are read strictly (engine/base/parse_number.hpp): "0,001", "1_5" and "nan" are refused.
class Option {
 public:
  using Destination = std::variant<std::string*, bool*, int*, std::int64_t*, std::uint64_t*, float*, double*,
                                   std::vector<int>*, std::vector<std::string>*>;

  Option& positive();                          ///< above 0
  Option& non_negative();                      ///< 0 or more
  Option& between(double least, double most);  ///< both included
  Option& one_of(std::vector<std::string> words);
  Option& comma_separated();          ///< also "a,b" for the two values of a list
  Option& byte_size();                ///< also with a suffix: "512M", "40G" (powers of 1024)
  Option& zero_as(std::string word);  ///< also this word, for 0; --help shows the word
  Option& value_optional();           ///< `--name` alone leaves the target empty
  Option& required();
  /// The option changes the bits of a run, so checkpoints store it: Subcommand::values() contains it,
  /// Subcommand::fill() sets it.
  Option& stored();
  /// The option changes no bits, or concerns only this start of the program. Each option of a subcommand that trains
  /// must be declared either stored() or not_stored().
  Option& not_stored();
  /// The option names a file that the command writes. Files that other options name are inputs; the command must not
  /// overwrite them.
  Option& output();
  /// All members of an ensemble have one value: the option decides what data they see, or how they are judged.
  Option& same_for_members();
  /// Ranks may have different values (a path on the node's own disk, a number of threads).
  Option& differs_between_ranks();

  /// Whether the user has given the option, on the command line or in the --config file.
  bool given() const;
  const std::string& name() const { return name_; }  ///< the first long name, without dashes
  /// The value as text that the option accepts again, numbers in their shortest form; empty for an option that was not
  /// given and whose default --help does not show.
  std::string text() const;

 private:
  friend class Subcommand;
  Option(std::string name, Destination target, bool shows_default)
      : target_(target), name_(std::move(name)), shows_default_(shows_default) {}
  /// Sets the target. Throws InputError, naming the option, what was found and what is expected.
  void read(const std::vector<std::string>& words);
  std::string expected() const;                  ///< "a number above 0"
  std::vector<std::string> given_texts() const;  ///< the texts that the user gave as values

  CLI::Option* option_ = nullptr;
  Destination target_;
  std::string name_;
  bool shows_default_, commas_ = false, bytes_ = false, differs_ = false, optional_ = false, filled_ = false,
                       output_ = false, same_ = false;
  std::optional<bool> stored_;  ///< empty: neither stored() nor not_stored() was called
  bool positive_ = false;
  std::optional<double> least_, most_;
  std::vector<std::string> words_;
  std::string zero_;  ///< word for 0; empty: none
};

}  // namespace keelson::app
