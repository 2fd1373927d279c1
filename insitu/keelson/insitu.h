#ifndef KEELSON_INSITU_H
#define KEELSON_INSITU_H

/** @file
 * Networks inside a running MPI simulation: inference on its fields, triggers that write snapshots, training while it
 * runs. docs/in-situ.md is the guide.
 *
 * - Every function returns KEELSON_INSITU_OK or an error code; keelson_insitu_error() returns the message. No function
 *   throws a C++ exception.
 * - "Collective": all ranks of the communicator must call the function, in the same order. If one rank has an error,
 *   all ranks get it (except for ranks that die).
 * - Descriptions are structures. A member that is 0 or NULL has the default that its comment names, so begin with
 *   `= {0}` and set the members that differ. Strings are copied; structures and strings need not exist after the call.
 * - Only one host thread may call the library at a time. Open a session after MPI_Init and, in a program that uses
 *   Kokkos, after Kokkos::initialize; close it before they are finalized. If the program has not started Kokkos, the
 *   library starts Kokkos, which then runs until the process ends.
 * - A rank's arrays hold its part of a field: interior cells, and ghost cells around them. Extents and all other
 *   numbers per dimension are in the same order of dimensions, which is also the order of the network's input and of
 *   the data sets in snapshots. The order is free, since strides describe the array in memory. C programs give the
 *   slowest dimension first.
 */

#include <mpi.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/** Results of all functions. */
enum {
  KEELSON_INSITU_OK = 0,
  KEELSON_INSITU_FAILURE = 1,   /**< a full disk, a loss that is not finite, an error of a library */
  KEELSON_INSITU_BAD_INPUT = 2, /**< arguments or files that cannot be used; the message says what was found, what was
                                   expected, what to try */
};

/** Element types of the host's arrays. */
enum { KEELSON_INSITU_FLOAT = 1, KEELSON_INSITU_DOUBLE = 2 };

/** The memory of the host's arrays. */
enum {
  KEELSON_INSITU_DEVICE = 0, /**< memory of Kokkos' default device: a GPU in a build for GPUs, else the host's memory */
  KEELSON_INSITU_HOST = 1,   /**< the host's memory; in a build for GPUs, each use copies the array */
};

enum { KEELSON_INSITU_MOST_DIMS = 3 };

/** A session: the ranks of a communicator with their fields, models and triggers. */
typedef struct keelson_insitu keelson_insitu;

/** The seconds of a step on one rank, by kind of work. */
typedef struct keelson_insitu_times {
  int64_t step;         /**< as given to keelson_insitu_step; in totals: the number of steps */
  double step_seconds;  /**< since the end of the previous step: the simulation's work and all times below */
  double pack;          /**< copying fields to the network's input and its output to fields */
  double infer;         /**< the network's inference */
  double train;         /**< training steps, with sampling of tiles and checkpoints */
  double trigger;       /**< allreduce of scores, including the wait for slower ranks */
  double write;         /**< snapshots */
  double share;         /**< (pack + infer + train + trigger + write) / step_seconds */
  int64_t train_steps;  /**< training steps made */
  double loss;          /**< loss of the last training step, mean over all ranks; NaN: no training step yet */
} keelson_insitu_times;

/** Called at the end of each step, on every rank. */
typedef void (*keelson_insitu_report)(const keelson_insitu_times* times, void* user);

/* --- session --- */

/** Opens a session on the ranks of `comm`, which is duplicated. `log`: a file that rank 0 writes, one JSON object per
 * step and one with the totals at the end; NULL: no log. `*session` becomes NULL if the call fails. Collective. */
int keelson_insitu_open(MPI_Comm comm, const char* log, keelson_insitu** session);
/** The same with the Fortran handle of a communicator. */
int keelson_insitu_open_fortran(MPI_Fint comm, const char* log, keelson_insitu** session);
/** Writes the checkpoints (`save`) and the totals, and frees everything; `*session` becomes NULL. Collective. */
int keelson_insitu_close(keelson_insitu** session);
/** The message of the last function that failed on this rank. `session` NULL: the message of keelson_insitu_open. The
 * result is never NULL, and valid until the next call with this session. */
const char* keelson_insitu_error(const keelson_insitu* session);
/** Ends a step and makes its report. Call it once per step, after all other calls. */
int keelson_insitu_step(keelson_insitu* session, int64_t step);
/** Sets the function that is called at the end of each step; NULL: none. */
int keelson_insitu_on_report(keelson_insitu* session, keelson_insitu_report report, void* user);
/** The totals of this rank so far. */
int keelson_insitu_totals(const keelson_insitu* session, keelson_insitu_times* totals);

/* --- fields --- */

/** An array of the host. */
typedef struct keelson_insitu_field_desc {
  const char* name;     /**< name by which models and triggers refer to the field */
  void* data;           /**< the array's first element, ghost cells included. May be NULL until the field is first used */
  int dtype;            /**< KEELSON_INSITU_FLOAT or KEELSON_INSITU_DOUBLE */
  int memory;           /**< KEELSON_INSITU_DEVICE (default) or KEELSON_INSITU_HOST */
  int ndims;            /**< 2 or 3 */
  int64_t extents[3];   /**< extents of the interior on this rank */
  int64_t strides[3];   /**< elements from one cell to the next in each dimension; default: row-major, all ghost
                           cells included */
  int64_t ghosts[3];    /**< layers of ghost cells on both sides of each dimension; the host fills them */
  int64_t global[3];    /**< extents of the whole field over all ranks, without ghost cells; default: `extents`. Only
                           snapshots need it */
  int64_t offset[3];    /**< position in the whole field at which this rank's interior begins */
} keelson_insitu_field_desc;

/** Registers a field, or replaces the field of this name if no model uses it yet. */
int keelson_insitu_field(keelson_insitu* session, const keelson_insitu_field_desc* field);
/** Sets another array for a field, e.g. for double buffering. */
int keelson_insitu_field_data(keelson_insitu* session, const char* field, void* data);

/* --- models --- */

/** A network on tiles of fields. Tiles cover the interior; if the extents are no multiple of the tile, the last tiles
 * begin earlier. The network reads a tile with `halo` cells around it: interior and ghost cells; beyond the ghost cells
 * the outermost ones are repeated. */
typedef struct keelson_insitu_model_desc {
  const char* name;        /**< name by which calls and triggers refer to the model */
  const char* checkpoint;  /**< a checkpoint or run folder of keelson-climate or keelson-cosmoflow, or a checkpoint that
                              keelson_insitu_save has written; NULL: none */
  const char* layers;      /**< without a checkpoint: the network, "batch_norm; conv 16 3; relu; conv 2 3" (docs/in-situ.md
                              lists the layers) */
  const char* inputs;      /**< names of the fields that are the network's channels, separated by spaces */
  const char* output;      /**< name of the field that inference writes, neither an input nor the target; NULL:
                              inference only makes scores */
  int channel;             /**< the channel of the network's result that is written and makes the scores;
                              KEELSON_INSITU_CLASS: the index of the largest channel */
  int64_t tile[3];         /**< cells of a tile; default: as in the checkpoint; without a checkpoint this rank's
                              interior, or, with a target, the largest tile that fits into the interior of every rank. With a
                              target it must be the same on all ranks */
  int64_t halo[3];         /**< cells that the network sees around a tile. With a target it must be the same on all
                              ranks */
  int batch;               /**< tiles per forward pass of inference; default: all tiles of this rank, at most 16 */

  /* Training; target NULL: no training. */
  const char* target;      /**< field that the network learns: class numbers for cross_entropy (-1: ignored), else
                              values */
  const char* loss;        /**< "mse" (default), "mae", "huber", or "cross_entropy", with weights of the classes if they
                              differ: "cross_entropy 1 20" */
  double share;            /**< training takes at most this many seconds per second of the simulation itself, not
                              counting the compilation of the network; default 0.1 */
  int steps;               /**< training steps per call instead of a share: gives the same results in every run, if sums
                              over ranks are made in the same way (KEELSON_TUNE=off) */
  int train_batch;         /**< tiles per training step and rank; default 4 */
  int reservoir;           /**< tiles of past snapshots that each rank keeps, a uniform sample; default 64 */
  int sample;              /**< tiles of each snapshot that are offered to the reservoir, chosen at random; default: all */
  double learning_rate;    /**< learning rate of Adam; default 0.001 */
  uint64_t seed;           /**< seed of weights, reservoir and batches */
  const char* save;        /**< checkpoint to write at the end; NULL: none */
} keelson_insitu_model_desc;

enum { KEELSON_INSITU_CLASS = -1 };

/** Makes the network and compiles it. The fields that `model` names must exist already. Collective. */
int keelson_insitu_model(keelson_insitu* session, const keelson_insitu_model_desc* model);
/** Runs the network on the present values of the fields, with its present weights. Allocates nothing after the first
 * call. */
int keelson_insitu_infer(keelson_insitu* session, const char* model);
/** The scores of the last inference, one per tile in row-major order of tiles: the mean of the chosen channel over the
 * tile, or the result if the network has one result per tile. Valid until the session closes. */
int keelson_insitu_scores(const keelson_insitu* session, const char* model, const float** scores, int64_t* count);
/** Offers tiles of the fields' present values to the reservoir, and makes as many training steps as all ranks have time
 * for. Collective. */
int keelson_insitu_train(keelson_insitu* session, const char* model);
/** Writes a checkpoint of the present weights atomically. Collective. */
int keelson_insitu_save(keelson_insitu* session, const char* model, const char* path);

/* --- triggers --- */

/** A trigger turns on when the largest score of all ranks' tiles reaches `on`, and off when it falls below `off`. A
 * snapshot is written when the trigger turns on, and then every `every` calls while it is on. */
typedef struct keelson_insitu_trigger_desc {
  const char* name;    /**< name by which keelson_insitu_check refers to the trigger */
  const char* model;   /**< name of the model whose scores decide */
  double on;           /**< threshold of the score at which the trigger turns on */
  double off;          /**< threshold below which the trigger turns off, at most `on` */
  const char* fields;  /**< names of the fields to write, separated by spaces; NULL: no snapshots */
  const char* path;    /**< path of snapshots, without "-<step>.h5" */
  int every;           /**< calls between snapshots while the trigger is on; default: only when it turns on */
} keelson_insitu_trigger_desc;

/** Makes a trigger. Collective. */
int keelson_insitu_trigger(keelson_insitu* session, const keelson_insitu_trigger_desc* trigger);
/** Updates a trigger with the scores of the last inference, by one allreduce, and writes a snapshot if it is due.
 * `step` and `time` are written into the snapshot. `on` and `score` (results) may be NULL. Collective. */
int keelson_insitu_check(keelson_insitu* session, const char* trigger, int64_t step, double time, int* on,
                         double* score);
/** Writes a snapshot now: an HDF5 file with a data set of global extents for each field, written collectively, and the
 * attributes "step" and "time". Each cell of the whole field must belong to the interior of exactly one rank; else
 * nothing is written. Collective. */
int keelson_insitu_snapshot(keelson_insitu* session, const char* fields, const char* path, int64_t step, double time);

#ifdef __cplusplus
}
#endif

#endif
