/* A simulation with a network inside: shocks of the forced Burgers equation in two dimensions,
 *
 *   du/dt + d(u^2/2)/dx + d(u^2/2)/dy = force(x, y, t),
 *
 * periodic, solved by Godunov's scheme; each rank has a slab of rows. During the simulation a network learns from u
 * which cells are in a shock; the true classes come from the compression of the flow. A trigger writes snapshots of strong
 * shocks.
 *
 * usage: keelson-insitu-burgers [CELLS [STEPS [row|column [GHOSTS [TRAINING STEPS [FOLDER]]]]]]
 */
#include <math.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "keelson/insitu.h"

/* A rank's part of the grid: `rows` x `cells`, and `ghosts` cells around them. */
typedef struct {
  int rank, ranks;
  int64_t cells, rows, first, ghosts;
  int64_t stride[2]; /* from row to row, from column to column */
  double *u, *next, *label, *shock;
} Grid;

static MPI_Comm comm;
static keelson_insitu* session;

static void require(int status) {
  if (status == KEELSON_INSITU_OK) return;
  fprintf(stderr, "keelson: %s\n", keelson_insitu_error(session));
  MPI_Abort(comm, status);
}

static int64_t at(const Grid* g, int64_t i, int64_t j) {
  return (i + g->ghosts) * g->stride[0] + (j + g->ghosts) * g->stride[1];
}

static Grid make_grid(int64_t cells, int columns_first, int64_t ghosts) {
  Grid g = {0};
  MPI_Comm_rank(comm, &g.rank);
  MPI_Comm_size(comm, &g.ranks);
  g.cells = cells;
  g.rows = cells / g.ranks;
  g.first = g.rows * g.rank;
  g.ghosts = ghosts;
  g.stride[0] = columns_first ? 1 : cells + 2 * ghosts;
  g.stride[1] = columns_first ? g.rows + 2 * ghosts : 1;
  const size_t count = (size_t)((g.rows + 2 * ghosts) * (cells + 2 * ghosts));
  double** arrays[] = {&g.u, &g.next, &g.label, &g.shock};
  for (int i = 0; i < 4; ++i) *arrays[i] = calloc(count, sizeof(double));
  return g;
}

/* Fills the ghost cells with the rows of neighbouring ranks, and with the other end of each row. */
static void exchange(const Grid* g, double* a) {
  const int up = (g->rank + g->ranks - 1) % g->ranks, down = (g->rank + 1) % g->ranks;
  const int64_t count = g->ghosts * g->cells;
  double* out = malloc(sizeof(double) * (size_t)count);
  double* in = malloc(sizeof(double) * (size_t)count);
  for (int side = 0; side < 2; ++side) {
    const int64_t from = side == 0 ? 0 : g->rows - g->ghosts, to = side == 0 ? g->rows : -g->ghosts;
    for (int64_t i = 0; i < g->ghosts; ++i)
      for (int64_t j = 0; j < g->cells; ++j) out[i * g->cells + j] = a[at(g, from + i, j)];
    MPI_Sendrecv(out, (int)count, MPI_DOUBLE, side == 0 ? up : down, side, in, (int)count, MPI_DOUBLE,
                 side == 0 ? down : up, side, comm, MPI_STATUS_IGNORE);
    for (int64_t i = 0; i < g->ghosts; ++i)
      for (int64_t j = 0; j < g->cells; ++j) a[at(g, to + i, j)] = in[i * g->cells + j];
  }
  free(out);
  free(in);
  for (int64_t i = -g->ghosts; i < g->rows + g->ghosts; ++i)
    for (int64_t j = 0; j < g->ghosts; ++j) {
      a[at(g, i, j - g->ghosts)] = a[at(g, i, g->cells + j - g->ghosts)];
      a[at(g, i, g->cells + j)] = a[at(g, i, j)];
    }
}

/* Godunov's flux of u^2 / 2 between two cells. */
static double flux(double left, double right) {
  const double l = fmax(left, 0), r = fmin(right, 0);
  return 0.5 * fmax(l * l, r * r);
}

static void advance(Grid* g, double dt, double time) {
  const double h = 1.0 / (double)g->cells, turn = 2 * acos(-1);
  exchange(g, g->u);
  for (int64_t i = 0; i < g->rows; ++i)
    for (int64_t j = 0; j < g->cells; ++j) {
      const double* u = g->u;
      const double here = u[at(g, i, j)];
      const double x = (double)j * h, y = (double)(i + g->first) * h;
      const double force = 2 * sin(turn * (x + 2 * y - 0.7 * time)) + 1.5 * cos(turn * (2 * x - y + 0.4 * time));
      const double out = flux(here, u[at(g, i, j + 1)]) - flux(u[at(g, i, j - 1)], here) +
                         flux(here, u[at(g, i + 1, j)]) - flux(u[at(g, i - 1, j)], here);
      g->next[at(g, i, j)] = here + dt * (force - out / h);
    }
  double* const old = g->u;
  g->u = g->next;
  g->next = old;
  exchange(g, g->u);
}

/* Writes 1 for cells in which the flow is compressed by more than 0.2 per cell, else 0. */
static void find_shocks(const Grid* g) {
  const double* u = g->u;
  for (int64_t i = 0; i < g->rows; ++i)
    for (int64_t j = 0; j < g->cells; ++j) {
      const double compression = 0.5 * (u[at(g, i, j - 1)] - u[at(g, i, j + 1)] + u[at(g, i - 1, j)] - u[at(g, i + 1, j)]);
      g->label[at(g, i, j)] = compression > 0.2 ? 1 : 0;
    }
}

/* Counts the cells in both the true and the found shocks, and the cells in at least one of them, over all ranks. */
static void overlap(const Grid* g, double counts[2]) {
  for (int64_t i = 0; i < g->rows; ++i)
    for (int64_t j = 0; j < g->cells; ++j) {
      const int truth = g->label[at(g, i, j)] > 0.5, found = g->shock[at(g, i, j)] > 0.5;
      counts[0] += truth && found;
      counts[1] += truth || found;
    }
}

static void register_field(const Grid* g, const char* name, double* data) {
  const keelson_insitu_field_desc field = {.name = name,
                                           .data = data,
                                           .dtype = KEELSON_INSITU_DOUBLE,
                                           .memory = KEELSON_INSITU_HOST,
                                           .ndims = 2,
                                           .extents = {g->rows, g->cells},
                                           .strides = {g->stride[0], g->stride[1]},
                                           .ghosts = {g->ghosts, g->ghosts},
                                           .global = {g->cells, g->cells},
                                           .offset = {g->first, 0}};
  require(keelson_insitu_field(session, &field));
}

static void add_network(const Grid* g, int training_steps, const char* folder) {
  char checkpoint[1024], snapshots[1024];
  snprintf(checkpoint, sizeof checkpoint, "%s/shocks.h5", folder);
  snprintf(snapshots, sizeof snapshots, "%s/strong", folder);
  register_field(g, "u", g->u);
  register_field(g, "label", g->label);
  register_field(g, "shock", g->shock);
  const keelson_insitu_model_desc model = {.name = "shocks",
                                           .layers = "batch_norm; conv 8 3; relu; conv 8 3; relu; conv 2 1",
                                           .inputs = "u",
                                           .output = "shock",
                                           .channel = 1, /* the probability of a shock */
                                           .tile = {16, 16},
                                           .halo = {2, 2},
                                           .target = "label",
                                           .loss = "cross_entropy",
                                           .steps = training_steps, /* 0: by share */
                                           .share = 4, /* of a simulation that takes less than a millisecond a step */
                                           .sample = 4,
                                           .learning_rate = 0.01,
                                           .seed = 1,
                                           .save = checkpoint};
  require(keelson_insitu_model(session, &model));
  const keelson_insitu_trigger_desc trigger = {
      .name = "strong", .model = "shocks", .on = 0.15, .off = 0.1, .fields = "u shock", .path = snapshots, .every = 50};
  require(keelson_insitu_trigger(session, &trigger));
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm_dup(MPI_COMM_WORLD, &comm);
  const int64_t cells = argc > 1 ? atoll(argv[1]) : 128;
  const int steps = argc > 2 ? atoi(argv[2]) : 400;
  const int columns_first = argc > 3 && strcmp(argv[3], "column") == 0;
  const int64_t ghosts = argc > 4 ? atoll(argv[4]) : 2;
  const int training_steps = argc > 5 ? atoi(argv[5]) : 0;
  const char* const folder = argc > 6 ? argv[6] : ".";
  Grid g = make_grid(cells, columns_first, ghosts);

  char log[1024];
  snprintf(log, sizeof log, "%s/insitu.log", folder);
  require(keelson_insitu_open(comm, log, &session));
  add_network(&g, training_steps, folder);

  const double dt = 0.2 / (double)cells;
  double counts[2] = {0, 0};
  int first_on = -1;
  for (int step = 0; step < steps; ++step) {
    advance(&g, dt, step * dt);
    find_shocks(&g);
    require(keelson_insitu_field_data(session, "u", g.u)); /* the two arrays have changed places */
    require(keelson_insitu_infer(session, "shocks"));
    if (step >= steps - steps / 4) overlap(&g, counts); /* before it learns this step */
    require(keelson_insitu_train(session, "shocks"));
    int on = 0;
    if (step >= steps / 4) /* it has learned something by then */
      require(keelson_insitu_check(session, "strong", step, step * dt, &on, NULL));
    if (on && first_on < 0) first_on = step;
    require(keelson_insitu_step(session, step));
  }
  MPI_Allreduce(MPI_IN_PLACE, counts, 2, MPI_DOUBLE, MPI_SUM, comm);
  keelson_insitu_times totals;
  require(keelson_insitu_totals(session, &totals));
  if (g.rank == 0)
    printf("{\"iou\": %.4f, \"first_on\": %d, \"train_steps\": %lld, \"share\": %.4f, \"step_ms\": %.4f, \"loss\": %.4f}\n",
           counts[1] > 0 ? counts[0] / counts[1] : 0, first_on, (long long)totals.train_steps, totals.share,
           1000 * totals.step_seconds / (double)totals.step, totals.loss);
  require(keelson_insitu_close(&session));
  MPI_Comm_free(&comm);
  MPI_Finalize();
  return 0;
}
