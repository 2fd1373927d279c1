!> A simulation in Fortran with a network inside: blobs drift over columns of cells, which are divided among the ranks.
!> It calls every function of the module keelson_insitu once, and fails if the network has not learned the square of the
!> field.
!>
!> usage: keelson-insitu-blobs [FOLDER]
module blobs_report
  use, intrinsic :: iso_c_binding
  use keelson_insitu
  implicit none
  integer :: reports = 0
contains
  subroutine count_report(times, user) bind(c)
    type(keelson_insitu_times), intent(in) :: times
    type(c_ptr), value :: user
    if (times%step_seconds > 0 .and. .not. c_associated(user)) reports = reports + 1
  end subroutine
end module

program blobs
  use, intrinsic :: iso_c_binding
  use mpi
  use keelson_insitu
  use blobs_report
  implicit none

  integer, parameter :: rows = 32, columns = 32, ghosts = 1, steps = 40
  type(keelson_insitu_session) :: session
  type(keelson_insitu_times) :: totals
  double precision, allocatable, target :: u(:, :), squares(:, :), found(:, :)
  real(c_float), pointer :: scores(:)
  character(len=512) :: folder
  double precision :: score, error
  integer :: rank, ranks, code, width, first, step
  logical :: on

  call MPI_Init(code)
  call MPI_Comm_rank(MPI_COMM_WORLD, rank, code)
  call MPI_Comm_size(MPI_COMM_WORLD, ranks, code)
  folder = '.'
  if (command_argument_count() > 0) call get_command_argument(1, folder)
  width = columns / ranks
  first = rank * width
  allocate (u(1 - ghosts:rows + ghosts, 1 - ghosts:width + ghosts))
  allocate (squares, found, mold=u)
  found = 0

  call require(keelson_insitu_open(MPI_COMM_WORLD, session, log=trim(folder) // '/blobs.log'))
  call require(keelson_insitu_on_report(session, c_funloc(count_report)))
  call add_field('u', u)
  call add_field('squares', squares)
  call add_field('found', found)
  call require(keelson_insitu_model(session, 'square', 'u', layers='conv 16 1; relu; conv 16 1; relu; conv 1 1', &
                                    output='found', tile=[8, 8], target='squares', loss='mse', steps=10, &
                                    learning_rate=0.01d0, seed=2, save=trim(folder) // '/blobs.h5'))
  call require(keelson_insitu_trigger(session, 'bright', 'square', on=0.1d0, off=0.05d0, fields='u found', &
                                      path=trim(folder) // '/bright'))
  do step = 1, steps
    call move(step)
    call require(keelson_insitu_field_data(session, 'u', c_loc(u)))
    call require(keelson_insitu_train(session, 'square'))
    call require(keelson_insitu_infer(session, 'square'))
    call require(keelson_insitu_check(session, 'bright', step, dble(step), on, score))
    call require(keelson_insitu_step(session, step))
  end do
  call require(keelson_insitu_scores(session, 'square', scores))
  call require(keelson_insitu_totals(session, totals))
  call require(keelson_insitu_save(session, 'square', trim(folder) // '/blobs-now.h5'))
  call require(keelson_insitu_snapshot(session, 'squares found', trim(folder) // '/blobs-last.h5', steps, dble(steps)))
  if (keelson_insitu_infer(session, 'cube') /= KEELSON_INSITU_BAD_INPUT) error stop 'a model that does not exist'
  if (index(keelson_insitu_error(session), "'cube'") == 0) error stop 'the message names the model'

  error = sum((found(1:rows, 1:width) - squares(1:rows, 1:width))**2) / (rows * width)
  call MPI_Allreduce(MPI_IN_PLACE, error, 1, MPI_DOUBLE_PRECISION, MPI_SUM, MPI_COMM_WORLD, code)
  error = sqrt(error / ranks)
  if (reports /= steps .or. totals%train_steps /= 10 * steps) error stop 'reports or training steps are missing'
  if (size(scores) /= (rows / 8) * ((width + 7) / 8) .or. .not. maxval(scores) <= score + 1d-6) error stop 'scores'
  if (rank == 0) print '(a, f8.5, a, l1, a, i0)', 'error ', error, ' on ', on, ' train_steps ', totals%train_steps
  if (error > 0.1) error stop 'the network has not learned the squares'
  call require(keelson_insitu_close(session))
  call MPI_Finalize(code)

contains

  subroutine add_field(name, array)
    character(len=*), intent(in) :: name
    double precision, intent(in), target :: array(:, :)
    call require(keelson_insitu_field(session, name, c_loc(array), KEELSON_INSITU_DOUBLE, [rows, width], &
                                      ghosts=[ghosts, ghosts], global=[rows, columns], offset=[0, first]))
  end subroutine

  subroutine move(step)
    integer, intent(in) :: step
    integer :: i, j
    do j = lbound(u, 2), ubound(u, 2)
      do i = lbound(u, 1), ubound(u, 1)
        u(i, j) = sin(0.2d0 * (i + step)) * cos(0.15d0 * (j + first) - 0.1d0 * step)
      end do
    end do
    squares = u**2
  end subroutine

  subroutine require(status)
    integer, intent(in) :: status
    if (status == KEELSON_INSITU_OK) return
    print *, 'keelson: ', keelson_insitu_error(session)
    call MPI_Abort(MPI_COMM_WORLD, 1, code)
  end subroutine

end program
