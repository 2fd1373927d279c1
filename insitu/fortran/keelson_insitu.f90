!> Networks inside a running MPI simulation: the Fortran interface of keelson/insitu.h, whose comments say what the
!> arguments mean. docs/in-situ.md is the guide.
!>
!> All functions return KEELSON_INSITU_OK or an error code; keelson_insitu_error returns the message. Arguments that are
!> left out have the defaults of the C interface, except `memory`: its default is KEELSON_INSITU_HOST, where Fortran's
!> arrays lie. Extents, strides, ghosts, tiles ... have one number for each dimension, in the order of the array's
!> dimensions: a(nx, ny) has the extents [nx, ny].
module keelson_insitu
  use, intrinsic :: iso_c_binding
  implicit none
  private

  integer, parameter, public :: KEELSON_INSITU_OK = 0, KEELSON_INSITU_FAILURE = 1, KEELSON_INSITU_BAD_INPUT = 2
  integer, parameter, public :: KEELSON_INSITU_FLOAT = 1, KEELSON_INSITU_DOUBLE = 2
  integer, parameter, public :: KEELSON_INSITU_DEVICE = 0, KEELSON_INSITU_HOST = 1
  integer, parameter, public :: KEELSON_INSITU_CLASS = -1

  !> A session.
  type, public :: keelson_insitu_session
    private
    type(c_ptr) :: handle = c_null_ptr
  end type

  !> The seconds of a step, or of all steps, by kind of work.
  type, bind(c), public :: keelson_insitu_times
    integer(c_int64_t) :: step
    real(c_double) :: step_seconds, pack, infer, train, trigger, write, share
    integer(c_int64_t) :: train_steps
    real(c_double) :: loss
  end type

  type, bind(c) :: field_desc
    type(c_ptr) :: name = c_null_ptr, data = c_null_ptr
    integer(c_int) :: dtype = 0, memory = 0, ndims = 0
    integer(c_int64_t), dimension(3) :: extents = 0, strides = 0, ghosts = 0, global = 0, offset = 0
  end type

  type, bind(c) :: model_desc
    type(c_ptr) :: name = c_null_ptr, checkpoint = c_null_ptr, layers = c_null_ptr, inputs = c_null_ptr, &
                   output = c_null_ptr
    integer(c_int) :: channel = 0
    integer(c_int64_t), dimension(3) :: tile = 0, halo = 0
    integer(c_int) :: batch = 0
    type(c_ptr) :: target = c_null_ptr, loss = c_null_ptr
    real(c_double) :: share = 0
    integer(c_int) :: steps = 0, train_batch = 0, reservoir = 0, sample = 0
    real(c_double) :: learning_rate = 0
    integer(c_int64_t) :: seed = 0
    type(c_ptr) :: save = c_null_ptr
  end type

  type, bind(c) :: trigger_desc
    type(c_ptr) :: name = c_null_ptr, model = c_null_ptr
    real(c_double) :: on = 0, off = 0
    type(c_ptr) :: fields = c_null_ptr, path = c_null_ptr
    integer(c_int) :: every = 0
  end type

  interface
    function c_open(comm, log, session) bind(c, name="keelson_insitu_open_fortran") result(status)
      import
      integer(c_int), value :: comm
      type(c_ptr), value :: log
      type(c_ptr), intent(out) :: session
      integer(c_int) :: status
    end function
    function c_close(session) bind(c, name="keelson_insitu_close") result(status)
      import
      type(c_ptr), intent(inout) :: session
      integer(c_int) :: status
    end function
    function c_error(session) bind(c, name="keelson_insitu_error") result(text)
      import
      type(c_ptr), value :: session
      type(c_ptr) :: text
    end function
    function c_step(session, step) bind(c, name="keelson_insitu_step") result(status)
      import
      type(c_ptr), value :: session
      integer(c_int64_t), value :: step
      integer(c_int) :: status
    end function
    function c_on_report(session, report, user) bind(c, name="keelson_insitu_on_report") result(status)
      import
      type(c_ptr), value :: session, user
      type(c_funptr), value :: report
      integer(c_int) :: status
    end function
    function c_totals(session, totals) bind(c, name="keelson_insitu_totals") result(status)
      import
      type(c_ptr), value :: session
      type(keelson_insitu_times), intent(out) :: totals
      integer(c_int) :: status
    end function
    function c_field(session, field) bind(c, name="keelson_insitu_field") result(status)
      import
      type(c_ptr), value :: session
      type(field_desc), intent(in) :: field
      integer(c_int) :: status
    end function
    function c_field_data(session, field, data) bind(c, name="keelson_insitu_field_data") result(status)
      import
      type(c_ptr), value :: session, field, data
      integer(c_int) :: status
    end function
    function c_model(session, model) bind(c, name="keelson_insitu_model") result(status)
      import
      type(c_ptr), value :: session
      type(model_desc), intent(in) :: model
      integer(c_int) :: status
    end function
    function c_infer(session, model) bind(c, name="keelson_insitu_infer") result(status)
      import
      type(c_ptr), value :: session, model
      integer(c_int) :: status
    end function
    function c_scores(session, model, scores, count) bind(c, name="keelson_insitu_scores") result(status)
      import
      type(c_ptr), value :: session, model
      type(c_ptr), intent(out) :: scores
      integer(c_int64_t), intent(out) :: count
      integer(c_int) :: status
    end function
    function c_train(session, model) bind(c, name="keelson_insitu_train") result(status)
      import
      type(c_ptr), value :: session, model
      integer(c_int) :: status
    end function
    function c_save(session, model, path) bind(c, name="keelson_insitu_save") result(status)
      import
      type(c_ptr), value :: session, model, path
      integer(c_int) :: status
    end function
    function c_trigger(session, trigger) bind(c, name="keelson_insitu_trigger") result(status)
      import
      type(c_ptr), value :: session
      type(trigger_desc), intent(in) :: trigger
      integer(c_int) :: status
    end function
    function c_check(session, trigger, step, time, on, score) bind(c, name="keelson_insitu_check") result(status)
      import
      type(c_ptr), value :: session, trigger
      integer(c_int64_t), value :: step
      real(c_double), value :: time
      integer(c_int), intent(out) :: on
      real(c_double), intent(out) :: score
      integer(c_int) :: status
    end function
    function c_snapshot(session, fields, path, step, time) bind(c, name="keelson_insitu_snapshot") result(status)
      import
      type(c_ptr), value :: session, fields, path
      integer(c_int64_t), value :: step
      real(c_double), value :: time
      integer(c_int) :: status
    end function
    function c_length(text) bind(c, name="strlen") result(length)
      import
      type(c_ptr), value :: text
      integer(c_size_t) :: length
    end function
  end interface

  public :: keelson_insitu_open, keelson_insitu_close, keelson_insitu_error, keelson_insitu_step, &
            keelson_insitu_on_report, keelson_insitu_totals, keelson_insitu_field, keelson_insitu_field_data, &
            keelson_insitu_model, keelson_insitu_infer, keelson_insitu_scores, keelson_insitu_train, &
            keelson_insitu_save, keelson_insitu_trigger, keelson_insitu_check, keelson_insitu_snapshot

contains

  !> The text as a C string in `buffer`; a null pointer if the text was left out.
  function c_text(text, buffer) result(pointer)
    character(len=*), intent(in), optional :: text
    character(kind=c_char, len=:), allocatable, target, intent(inout) :: buffer
    type(c_ptr) :: pointer
    pointer = c_null_ptr
    if (.not. present(text)) return
    buffer = trim(text) // c_null_char
    pointer = c_loc(buffer)
  end function

  subroutine fill(to, from)
    integer(c_int64_t), intent(inout) :: to(3)
    integer, intent(in), optional :: from(:)
    if (present(from)) to(1:min(3, size(from))) = from(1:min(3, size(from)))
  end subroutine

  !> `comm`: the communicator as an integer; with mpi_f08, comm%mpi_val.
  integer function keelson_insitu_open(comm, session, log) result(status)
    integer, intent(in) :: comm
    type(keelson_insitu_session), intent(out) :: session
    character(len=*), intent(in), optional :: log
    character(kind=c_char, len=:), allocatable, target :: buffer
    status = c_open(int(comm, c_int), c_text(log, buffer), session%handle)
  end function

  integer function keelson_insitu_close(session) result(status)
    type(keelson_insitu_session), intent(inout) :: session
    status = c_close(session%handle)
  end function

  !> The message of the last function that failed.
  function keelson_insitu_error(session) result(text)
    type(keelson_insitu_session), intent(in) :: session
    character(len=:), allocatable :: text
    type(c_ptr) :: message
    character(kind=c_char), pointer :: characters(:)
    integer :: i, length
    message = c_error(session%handle)
    length = int(c_length(message))
    call c_f_pointer(message, characters, [length])
    allocate (character(len=length) :: text)
    do i = 1, length
      text(i:i) = characters(i)
    end do
  end function

  integer function keelson_insitu_step(session, step) result(status)
    type(keelson_insitu_session), intent(in) :: session
    integer, intent(in) :: step
    status = c_step(session%handle, int(step, c_int64_t))
  end function

  !> `report`: c_funloc of a subroutine with bind(c): type(keelson_insitu_times), intent(in) :: times; type(c_ptr), value ::
  !> user.
  integer function keelson_insitu_on_report(session, report, user) result(status)
    type(keelson_insitu_session), intent(in) :: session
    type(c_funptr), intent(in) :: report
    type(c_ptr), intent(in), optional :: user
    type(c_ptr) :: given
    given = c_null_ptr
    if (present(user)) given = user
    status = c_on_report(session%handle, report, given)
  end function

  integer function keelson_insitu_totals(session, totals) result(status)
    type(keelson_insitu_session), intent(in) :: session
    type(keelson_insitu_times), intent(out) :: totals
    status = c_totals(session%handle, totals)
  end function

  !> `data`: c_loc of the array's first element, ghost cells included. Without strides, the array has Fortran's order,
  !> with extents + 2 ghosts elements in each dimension.
  integer function keelson_insitu_field(session, name, data, dtype, extents, ghosts, strides, global, offset, &
                                        memory) result(status)
    type(keelson_insitu_session), intent(in) :: session
    character(len=*), intent(in) :: name
    type(c_ptr), intent(in) :: data
    integer, intent(in) :: dtype, extents(:)
    integer, intent(in), optional :: ghosts(:), strides(:), global(:), offset(:), memory
    character(kind=c_char, len=:), allocatable, target :: buffer
    type(field_desc) :: desc
    integer :: d
    desc%name = c_text(name, buffer)
    desc%data = data
    desc%dtype = dtype
    desc%memory = KEELSON_INSITU_HOST
    if (present(memory)) desc%memory = memory
    desc%ndims = size(extents)
    call fill(desc%extents, extents)
    call fill(desc%ghosts, ghosts)
    desc%strides(1) = 1
    do d = 2, min(3, size(extents))
      desc%strides(d) = desc%strides(d - 1) * (desc%extents(d - 1) + 2 * desc%ghosts(d - 1))
    end do
    call fill(desc%strides, strides)
    call fill(desc%global, global)
    call fill(desc%offset, offset)
    status = c_field(session%handle, desc)
  end function

  integer function keelson_insitu_field_data(session, field, data) result(status)
    type(keelson_insitu_session), intent(in) :: session
    character(len=*), intent(in) :: field
    type(c_ptr), intent(in) :: data
    character(kind=c_char, len=:), allocatable, target :: buffer
    status = c_field_data(session%handle, c_text(field, buffer), data)
  end function

  integer function keelson_insitu_model(session, name, inputs, layers, checkpoint, output, channel, tile, halo, batch, &
                                        target, loss, share, steps, train_batch, reservoir, sample, learning_rate, &
                                        seed, save) result(status)
    type(keelson_insitu_session), intent(in) :: session
    character(len=*), intent(in) :: name, inputs
    character(len=*), intent(in), optional :: layers, checkpoint, output, target, loss, save
    integer, intent(in), optional :: channel, tile(:), halo(:), batch, steps, train_batch, reservoir, sample, seed
    double precision, intent(in), optional :: share, learning_rate
    character(kind=c_char, len=:), allocatable, target :: b1, b2, b3, b4, b5, b6, b7, b8
    type(model_desc) :: desc
    desc%name = c_text(name, b1)
    desc%inputs = c_text(inputs, b2)
    desc%layers = c_text(layers, b3)
    desc%checkpoint = c_text(checkpoint, b4)
    desc%output = c_text(output, b5)
    desc%target = c_text(target, b6)
    desc%loss = c_text(loss, b7)
    desc%save = c_text(save, b8)
    call fill(desc%tile, tile)
    call fill(desc%halo, halo)
    if (present(channel)) desc%channel = channel
    if (present(batch)) desc%batch = batch
    if (present(share)) desc%share = share
    if (present(steps)) desc%steps = steps
    if (present(train_batch)) desc%train_batch = train_batch
    if (present(reservoir)) desc%reservoir = reservoir
    if (present(sample)) desc%sample = sample
    if (present(learning_rate)) desc%learning_rate = learning_rate
    if (present(seed)) desc%seed = seed
    status = c_model(session%handle, desc)
  end function

  integer function keelson_insitu_infer(session, model) result(status)
    type(keelson_insitu_session), intent(in) :: session
    character(len=*), intent(in) :: model
    character(kind=c_char, len=:), allocatable, target :: buffer
    status = c_infer(session%handle, c_text(model, buffer))
  end function

  !> `scores` points into the session's memory.
  integer function keelson_insitu_scores(session, model, scores) result(status)
    type(keelson_insitu_session), intent(in) :: session
    character(len=*), intent(in) :: model
    real(c_float), pointer, intent(out) :: scores(:)
    character(kind=c_char, len=:), allocatable, target :: buffer
    type(c_ptr) :: first
    integer(c_int64_t) :: count
    nullify (scores)
    status = c_scores(session%handle, c_text(model, buffer), first, count)
    if (status == KEELSON_INSITU_OK) call c_f_pointer(first, scores, [count])
  end function

  integer function keelson_insitu_train(session, model) result(status)
    type(keelson_insitu_session), intent(in) :: session
    character(len=*), intent(in) :: model
    character(kind=c_char, len=:), allocatable, target :: buffer
    status = c_train(session%handle, c_text(model, buffer))
  end function

  integer function keelson_insitu_save(session, model, path) result(status)
    type(keelson_insitu_session), intent(in) :: session
    character(len=*), intent(in) :: model, path
    character(kind=c_char, len=:), allocatable, target :: b1, b2
    status = c_save(session%handle, c_text(model, b1), c_text(path, b2))
  end function

  integer function keelson_insitu_trigger(session, name, model, on, off, fields, path, every) result(status)
    type(keelson_insitu_session), intent(in) :: session
    character(len=*), intent(in) :: name, model
    double precision, intent(in) :: on, off
    character(len=*), intent(in), optional :: fields, path
    integer, intent(in), optional :: every
    character(kind=c_char, len=:), allocatable, target :: b1, b2, b3, b4
    type(trigger_desc) :: desc
    desc%name = c_text(name, b1)
    desc%model = c_text(model, b2)
    desc%on = on
    desc%off = off
    desc%fields = c_text(fields, b3)
    desc%path = c_text(path, b4)
    if (present(every)) desc%every = every
    status = c_trigger(session%handle, desc)
  end function

  integer function keelson_insitu_check(session, trigger, step, time, on, score) result(status)
    type(keelson_insitu_session), intent(in) :: session
    character(len=*), intent(in) :: trigger
    integer, intent(in) :: step
    double precision, intent(in) :: time
    logical, intent(out), optional :: on
    double precision, intent(out), optional :: score
    character(kind=c_char, len=:), allocatable, target :: buffer
    integer(c_int) :: is_on
    real(c_double) :: value
    is_on = 0
    value = 0
    status = c_check(session%handle, c_text(trigger, buffer), int(step, c_int64_t), real(time, c_double), is_on, value)
    if (present(on)) on = is_on /= 0
    if (present(score)) score = value
  end function

  integer function keelson_insitu_snapshot(session, fields, path, step, time) result(status)
    type(keelson_insitu_session), intent(in) :: session
    character(len=*), intent(in) :: fields, path
    integer, intent(in) :: step
    double precision, intent(in) :: time
    character(kind=c_char, len=:), allocatable, target :: b1, b2
    status = c_snapshot(session%handle, c_text(fields, b1), c_text(path, b2), int(step, c_int64_t), &
                        real(time, c_double))
  end function

end module
