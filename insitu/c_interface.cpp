#include <exception>
#include <memory>
#include <string>

#include "engine/base/error.hpp"
#include "insitu/keelson/insitu.h"
#include "insitu/session.hpp"

struct keelson_insitu {
  std::unique_ptr<keelson::insitu::Session> session;
  std::string error;
};

namespace {

/// The error of keelson_insitu_open, which has no session to keep it.
thread_local std::string open_error;

/// Calls `work`; its exceptions become a status and the text of `error`.
template <class Work>
int guarded(std::string& error, const Work& work) noexcept {
  try {
    try {
      work();
      return KEELSON_INSITU_OK;
    } catch (const keelson::InputError& e) {
      error = e.what();
      return KEELSON_INSITU_BAD_INPUT;
    } catch (const keelson::OutOfMemory& e) {
      error = e.what();
      return KEELSON_INSITU_BAD_INPUT;
    } catch (const std::exception& e) {
      error = e.what();
    } catch (...) {
      error = "an exception of an unknown type";
    }
  } catch (...) {  // there is no memory for the text
  }
  return KEELSON_INSITU_FAILURE;
}

template <class Work>
int guarded(const keelson_insitu* session, const Work& work) noexcept {
  if (!session) {
    open_error = "the session is NULL. Expected the session of keelson_insitu_open";
    return KEELSON_INSITU_BAD_INPUT;
  }
  auto& s =
      *const_cast<keelson_insitu*>(session);  // the error's text may change in a session that is constant for callers
  return guarded(s.error, [&] { work(*s.session); });
}

/// Checks a string of the caller.
std::string text(const char* given, const char* what) {
  if (!given) keelson::refuse("{} is NULL. Expected a text", what);
  return given;
}

template <class T>
const T& structure(const T* given, const char* what) {
  if (!given) keelson::refuse("{} is NULL. Expected a description", what);
  return *given;
}

}  // namespace

extern "C" {

int keelson_insitu_open(MPI_Comm comm, const char* log, keelson_insitu** session) {
  return guarded(open_error, [&] {
    if (!session) keelson::refuse("`session` is NULL. Expected the address of a pointer to a session");
    *session = nullptr;
    auto made = std::make_unique<keelson_insitu>();
    made->session = std::make_unique<keelson::insitu::Session>(comm, log ? log : "");
    *session = made.release();
  });
}

int keelson_insitu_open_fortran(MPI_Fint comm, const char* log, keelson_insitu** session) {
  return keelson_insitu_open(MPI_Comm_f2c(comm), log, session);
}

int keelson_insitu_close(keelson_insitu** session) {
  if (!session || !*session) return KEELSON_INSITU_OK;
  const std::unique_ptr<keelson_insitu> closed(*session);
  *session = nullptr;
  return guarded(open_error, [&] { closed->session->finish(); });
}

const char* keelson_insitu_error(const keelson_insitu* session) {
  return session ? session->error.c_str() : open_error.c_str();
}

int keelson_insitu_step(keelson_insitu* session, int64_t step) {
  return guarded(session, [&](auto& s) { s.step(step); });
}

int keelson_insitu_on_report(keelson_insitu* session, keelson_insitu_report report, void* user) {
  return guarded(session, [&](auto& s) { s.on_report(report, user); });
}

int keelson_insitu_totals(const keelson_insitu* session, keelson_insitu_times* totals) {
  return guarded(session, [&](auto& s) {
    if (!totals) keelson::refuse("`totals` is NULL. Expected the address of a keelson_insitu_times");
    *totals = s.totals();
  });
}

int keelson_insitu_field(keelson_insitu* session, const keelson_insitu_field_desc* field) {
  return guarded(session, [&](auto& s) { s.field(structure(field, "`field`")); });
}

int keelson_insitu_field_data(keelson_insitu* session, const char* field, void* data) {
  return guarded(session, [&](auto& s) { s.field_data(text(field, "`field`"), data); });
}

int keelson_insitu_model(keelson_insitu* session, const keelson_insitu_model_desc* model) {
  return guarded(session, [&](auto& s) { s.model(structure(model, "`model`")); });
}

int keelson_insitu_infer(keelson_insitu* session, const char* model) {
  return guarded(session, [&](auto& s) { s.infer(text(model, "`model`")); });
}

int keelson_insitu_scores(const keelson_insitu* session, const char* model, const float** scores, int64_t* count) {
  return guarded(session, [&](auto& s) {
    if (!scores || !count) keelson::refuse("`scores` or `count` is NULL. Expected addresses for both results");
    s.scores(text(model, "`model`"), scores, count);
  });
}

int keelson_insitu_train(keelson_insitu* session, const char* model) {
  return guarded(session, [&](auto& s) { s.train(text(model, "`model`")); });
}

int keelson_insitu_save(keelson_insitu* session, const char* model, const char* path) {
  return guarded(session, [&](auto& s) { s.save(text(model, "`model`"), text(path, "`path`")); });
}

int keelson_insitu_trigger(keelson_insitu* session, const keelson_insitu_trigger_desc* trigger) {
  return guarded(session, [&](auto& s) { s.trigger(structure(trigger, "`trigger`")); });
}

int keelson_insitu_check(keelson_insitu* session, const char* trigger, int64_t step, double time, int* on,
                         double* score) {
  return guarded(session, [&](auto& s) { s.check(text(trigger, "`trigger`"), step, time, on, score); });
}

int keelson_insitu_snapshot(keelson_insitu* session, const char* fields, const char* path, int64_t step, double time) {
  return guarded(session,
                 [&](auto& s) { s.snapshot(keelson::insitu::words(fields), text(path, "`path`"), step, time); });
}

}  // extern "C"
