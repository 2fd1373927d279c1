#ifndef KEELSON_INSITU_H
#define KEELSON_INSITU_H

/** @file
 * Networks inside a running MPI simulation: inference on its fields, triggers that write snapshots, training while it
 * runs. docs/in-situ.md is the guide.
 *
 * - Every function returns KEELSON_INSITU_OK or why not; keelson_insitu_error() is the message. No C++ exception leaves.
 * - "Collective": all ranks of the communicator call the function in the same order. All of them then get an error that
 *   one of them has, but for ranks that die.
 * - Descriptions are structures. A member that is 0 or NULL has the default that its comment names, so begin with
 *   `= {0}` and set what differs. Strings are copied; structures and strings may go when the function returns.
 * - One host thread at a time. Open after MPI_Init and, in a program that uses Kokkos, after Kokkos::initialize; close
 *   before they are finalized. If nobody has started Kokkos, it is started here, and ends with the process.
 * - A rank's arrays hold its part of a field: interior cells, and ghost cells around them. Extents and whatever else is
 *   given by dimension are in one order of dimensions, that of the network's input and of the data sets in snapshots.
 *   Strides say how the array lies in memory, so this order is free. C codes give the slowest dimension first.
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

/** Where the host's arrays lie. */
enum {
  KEELSON_INSITU_DEVICE = 0, /**< where Kokkos computes by default: a GPU, in a build for GPUs, else the host's memory */
  KEELSON_INSITU_HOST = 1,   /**< in the host's memory: in a build for GPUs each use copies the array */
};

enum { KEELSON_INSITU_MOST_DIMS = 3 };

/** A session: the ranks of a communicator with their fields, models and triggers. */
typedef struct keelson_insitu keelson_insitu;

/** Where the time of a step went, on one rank. Seconds. */
typedef struct keelson_insitu_times {
  int64_t step;         /**< as given to keelson_insitu_step; of totals: the number of steps */
  double step_seconds;  /**< since the end of the step before: the simulation's work and all below */
  double pack;          /**< copying fields to the network's input and its output to fields */
  double infer;         /**< the network's inference */
  double train;         /**< training steps, with sampling of tiles and checkpoints */
  double trigger;       /**< scores' allreduce, with waiting for slower ranks */
  double write;         /**< snapshots */
  double share;         /**< (pack + infer + train + trigger + write) / step_seconds */
  int64_t train_steps;  /**< training steps made */
  double loss;          /**< of the last training step, mean over all ranks; NaN: none */
} keelson_insitu_times;

/** Called at the end of each step, on every rank. */
typedef void (*keelson_insitu_report)(const keelson_insitu_times* times, void* user);

/* --- session --- */

/** Opens a session on the ranks of `comm`, which is duplicated. `log`: a file that rank 0 writes, one JSON object per
 * step and one with the totals at the end; NULL: none. `session` becomes NULL where this fails. Collective. */
int keelson_insitu_open(MPI_Comm comm, const char* log, keelson_insitu** session);
/** The same with the Fortran handle of a communicator. */
int keelson_insitu_open_fortran(MPI_Fint comm, const char* log, keelson_insitu** session);
/** Writes the checkpoints that were asked for, the totals, and frees everything; `*session` becomes NULL. Collective. */
int keelson_insitu_close(keelson_insitu** session);
/** The message of the last function that failed on this rank. `session` NULL: of keelson_insitu_open. Never NULL. Valid
 * until the next call with this session. */
const char* keelson_insitu_error(const keelson_insitu* session);
/** Ends a step: makes its report. Call it once per step, behind everything else. */
int keelson_insitu_step(keelson_insitu* session, int64_t step);
/** Calls `report` at the end of each step; NULL: nothing. */
int keelson_insitu_on_report(keelson_insitu* session, keelson_insitu_report report, void* user);
/** The totals of this rank so far. */
int keelson_insitu_totals(const keelson_insitu* session, keelson_insitu_times* totals);

/* --- fields --- */

/** An array of the host. */
typedef struct keelson_insitu_field_desc {
  const char* name;     /**< by which models and triggers refer to it */
  void* data;           /**< the array's first element, ghost cells included. May be NULL until the field is first used */
  int dtype;            /**< KEELSON_INSITU_FLOAT or KEELSON_INSITU_DOUBLE */
  int memory;           /**< KEELSON_INSITU_DEVICE (default) or KEELSON_INSITU_HOST */
  int ndims;            /**< 2 or 3 */
  int64_t extents[3];   /**< of the interior on this rank */
  int64_t strides[3];   /**< elements from a cell to the next in each dimension; default: row-major, all ghost cells
                           included */
  int64_t ghosts[3];    /**< layers of ghost cells on both sides of each dimension; the host has filled them */
  int64_t global[3];    /**< extents of the whole field over all ranks, without ghost cells; default: the extents. Only
                           snapshots need it */
  int64_t offset[3];    /**< where this rank's interior begins in the whole field */
} keelson_insitu_field_desc;

/** Registers a field, or replaces the field of this name, which no model may use yet. */
int keelson_insitu_field(keelson_insitu* session, const keelson_insitu_field_desc* field);
/** The array of a field has moved (double buffering). */
int keelson_insitu_field_data(keelson_insitu* session, const char* field, void* data);

/* --- models --- */

/** A network on tiles of fields. Tiles cover the interior; where the extents are no multiple of the tile, the last ones
 * begin earlier. The network reads a tile with `halo` cells around it: interior and ghost cells, and beyond these the
 * outermost ones repeated. */
typedef struct keelson_insitu_model_desc {
  const char* name;        /**< by which calls and triggers refer to it */
  const char* checkpoint;  /**< a checkpoint or run folder of keelson-climate or keelson-cosmoflow, or one that
                              keelson_insitu_save has written; NULL: none */
  const char* layers;      /**< without a checkpoint: the network, "batch_norm; conv 16 3; relu; conv 2 3" (docs/in-situ.md
                              lists the layers) */
  const char* inputs;      /**< names of the fields that are the network's channels, separated by spaces */
  const char* output;      /**< name of the field that inference writes, neither an input nor the target; NULL: inference only
                              makes scores */
  int channel;             /**< of the network's result, that is written and makes the scores; KEELSON_INSITU_CLASS: the
                              number of the largest channel */
  int64_t tile[3];         /**< cells of a tile; default: that of the checkpoint; else this rank's interior, or, with a
                              target, the largest tile that fits into the interior of every rank. With a target the
                              same on all ranks */
  int64_t halo[3];         /**< cells that the network sees around a tile. With a target the same on all ranks */
  int batch;               /**< tiles per pass of inference; default: all of this rank's, 16 at most */

  /* Training; target NULL: none. */
  const char* target;      /**< field that the network learns: class numbers for cross_entropy (-1: does not count), else
                              values */
  const char* loss;        /**< "mse" (default), "mae", "huber", or "cross_entropy", with weights of the classes where they
                              differ: "cross_entropy 1 20" */
  double share;            /**< training takes at most this many seconds per second that the simulation itself takes,
                              compiling the network aside; default 0.1 */
  int steps;               /**< training steps per call instead of a share: the same results in every run, if sums over
                              ranks are made alike (KEELSON_TUNE=off) */
  int train_batch;         /**< tiles per training step and rank; default 4 */
  int reservoir;           /**< tiles of past snapshots that each rank keeps, a uniform sample; default 64 */
  int sample;              /**< tiles of each snapshot that are offered to the reservoir, chosen at random; default: all */
  double learning_rate;    /**< of Adam; default 0.001 */
  uint64_t seed;           /**< of weights, reservoir and batches */
  const char* save;        /**< checkpoint to write at the end; NULL: none */
} keelson_insitu_model_desc;

enum { KEELSON_INSITU_CLASS = -1 };

/** Makes the network and compiles it. The fields that it names exist already. Collective. */
int keelson_insitu_model(keelson_insitu* session, const keelson_insitu_model_desc* model);
/** Runs the network on the fields as they are now, with its current weights. Allocates nothing after the first call. */
int keelson_insitu_infer(keelson_insitu* session, const char* model);
/** The scores of the last inference, one per tile in row-major order of tiles: the mean of the chosen channel over the
 * tile, or for a network with one result per tile the result. Valid until the session closes. */
int keelson_insitu_scores(const keelson_insitu* session, const char* model, const float** scores, int64_t* count);
/** Offers the fields as they are now to the reservoir and makes training steps, as many as all ranks have time for.
 * Collective. */
int keelson_insitu_train(keelson_insitu* session, const char* model);
/** Writes a checkpoint of the current weights, as a whole or not at all. Collective. */
int keelson_insitu_save(keelson_insitu* session, const char* model, const char* path);

/* --- triggers --- */

/** Is on from when the largest score of all ranks' tiles reaches `on` until it falls below `off`. When it turns on, and
 * every `every` calls while it is on, a snapshot is written. */
typedef struct keelson_insitu_trigger_desc {
  const char* name;    /**< by which keelson_insitu_check refers to it */
  const char* model;   /**< whose scores decide */
  double on;           /**< threshold of the score at which the trigger turns on */
  double off;          /**< threshold below which it turns off, at most `on` */
  const char* fields;  /**< names of the fields to write, separated by spaces; NULL: no snapshots */
  const char* path;    /**< of snapshots, without "-<step>.h5" */
  int every;           /**< calls between snapshots while on; default: only when it turns on */
} keelson_insitu_trigger_desc;

/** Collective. */
int keelson_insitu_trigger(keelson_insitu* session, const keelson_insitu_trigger_desc* trigger);
/** Decides by one allreduce of the scores of the last inference. `step` and `time` are written into the snapshot. `on`
 * and `score` may be NULL. Collective. */
int keelson_insitu_check(keelson_insitu* session, const char* trigger, int64_t step, double time, int* on,
                         double* score);
/** Writes a snapshot now: an HDF5 file with a data set of global extents for each of the fields, written collectively,
 * and the attributes "step" and "time". The ranks' interiors have each cell of the whole field once; else nothing is
 * written. Collective. */
int keelson_insitu_snapshot(keelson_insitu* session, const char* fields, const char* path, int64_t step, double time);

#ifdef __cplusplus
}
#endif

#endif
