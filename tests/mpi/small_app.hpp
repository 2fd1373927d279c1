#pragma once

namespace keelson::testing {

/// The main function of a program made by run_app, with verbs that fail, wait and sleep when told to.
int small_app(int argc, char** argv);

}  // namespace keelson::testing
