"""The ledger: what users can count on, and the tests that show it. `test_requirements.py` holds both together.

A row is one guarantee. A test named here says so itself: its docstring cites the id. Where something is not shown yet, `missing`
says what; an empty `missing` is a claim.
"""

import msgspec

CHAOS_CLIENT = "tests/chaos/test_client_hostile_servers.py"
CHAOS_CHILDREN = "tests/chaos/test_misbehaving_children.py"
CHAOS_SERVER = "tests/chaos/test_server.py"
CLIENT = "packages/jackstay/tests/client/test_client.py"
CLIENT_TRANSPORTS = "packages/jackstay/tests/client/test_connection_transports.py"
CONVERSATIONS = "tests/wire/test_conversations.py"
HTTP_FAULTS = "tests/chaos/http/test_faults.py"
HTTP_IDLE = "tests/chaos/http/test_idle_sessions.py"
HTTP_ROLLING = "tests/chaos/http/test_rolling.py"
HTTP_SECURITY = "tests/chaos/http/test_security.py"
HTTP_SERVER = "packages/jackstay/tests/server/http"
HTTP_TRANSPORT = "packages/jackstay/tests/transport/http"
SERVER_DRIVER = "packages/jackstay/tests/server/test_connection.py"
SIMULATION = "tests/wire/test_simulation.py"


class Requirement(msgspec.Struct, frozen=True):
    """One guarantee: what holds, and which tests (`path::name`) show it."""

    id: str
    holds: str
    tests: tuple[str, ...]
    missing: str = ""


REQUIREMENTS = (
    Requirement(
        "G1",
        "a stdio server that dies mid-call: what it said first is delivered, then callers are released, with exit code and last words",
        (
            f"{CHAOS_CLIENT}::test_an_answer_already_in_the_pipe_is_delivered_although_the_server_is_dead",
            f"{CHAOS_CLIENT}::test_a_server_that_dies_mid_call_is_told_with_its_code_and_last_words_and_started_again",
            f"{CHAOS_CLIENT}::test_a_server_killed_in_the_middle_of_a_frame_leaves_nobody_waiting",
            f"{CHAOS_CLIENT}::test_a_grandchild_that_holds_the_pipes_does_not_hold_the_caller",
        ),
    ),
    Requirement(
        "G2",
        "an HTTP response that ends without an answer is OutcomeUnknownError, at once",
        (
            f"{HTTP_FAULTS}::test_each_fault_at_each_place_ends_the_call_at_once",
            f"{HTTP_FAULTS}::test_in_any_storm_the_ledger_agrees_with_what_every_caller_was_told",
            f"{HTTP_TRANSPORT}/test_over_sockets.py::test_a_response_that_ends_without_its_answer_is_an_outcome_at_once_and_nobody_elses",
            f"{HTTP_TRANSPORT}/test_posts.py::test_a_failing_request_fails_only_itself_and_says_whether_it_may_have_run",
        ),
    ),
    Requirement(
        "G3",
        "one failing request fails only itself, cause attached",
        (
            f"{CONVERSATIONS}::test_a_request_that_fails_fails_alone",
            f"{HTTP_FAULTS}::test_in_any_storm_the_ledger_agrees_with_what_every_caller_was_told",
            f"{HTTP_TRANSPORT}/test_posts.py::test_a_failing_request_fails_only_itself_and_says_whether_it_may_have_run",
        ),
    ),
    Requirement(
        "G4",
        "a session 404 concerns one request alone: it did not run, and is sent again in a new session, within `session_attempts` and its deadline; sessions are made one at a time, at once or at the pace of the backoff; a late 404 changes nothing",
        (
            f"{HTTP_ROLLING}::test_a_redeployed_server_has_forgotten_every_session_and_callers_get_a_new_one",
            f"{HTTP_ROLLING}::test_workers_that_are_restarted_or_killed_under_load_hang_and_double_nothing",
            f"{HTTP_TRANSPORT}/test_transport_forgotten.py::test_calls_behind_a_balancer_without_sticky_sessions_end_truthfully",
            f"{HTTP_TRANSPORT}/test_over_sockets.py::test_a_redeployed_server_forgets_the_session_and_the_next_call_works",
            f"{HTTP_TRANSPORT}/test_transport_sessions.py::test_a_forgotten_session_is_made_again_without_delay_and_the_refused_request_sent_again_once",
            f"{HTTP_TRANSPORT}/test_transport_sessions.py::test_many_refused_requests_make_one_new_session_and_a_late_404_cannot_end_it",
        ),
    ),
    Requirement(
        "G5",
        "a crashed stdio server is started again; the first call after a crash succeeds within its deadline (unless wait_for_ready is off)",
        (
            f"{CHAOS_CLIENT}::test_after_a_kill_the_first_call_that_waits_succeeds",
            f"{CONVERSATIONS}::test_every_method_is_recovered_alike",
            f"{SIMULATION}::test_in_any_storm_everybody_is_told_the_truth_and_after_it_all_is_well",
        ),
    ),
    Requirement(
        "G6",
        "recovery lives below the API, the same for every method",
        (f"{CONVERSATIONS}::test_every_method_is_recovered_alike",),
    ),
    Requirement(
        "G7",
        'a call runs at most once unless replay="safe" was asked for',
        (
            "tests/chaos/test_client_ledger.py::test_the_ledger_agrees_with_what_every_caller_was_told",
            f"{HTTP_FAULTS}::test_in_any_storm_the_ledger_agrees_with_what_every_caller_was_told",
            f"{HTTP_ROLLING}::test_workers_that_are_restarted_or_killed_under_load_hang_and_double_nothing",
            f"{CONVERSATIONS}::test_every_method_is_recovered_alike",
            f"{CONVERSATIONS}::test_what_is_safe_is_repeated_once_where_that_was_asked_for",
            f"{SIMULATION}::test_in_any_storm_everybody_is_told_the_truth_and_after_it_all_is_well",
        ),
    ),
    Requirement(
        "G8",
        "a client is opened and closed from any task, in any order",
        (
            f"{CLIENT}::test_it_is_opened_in_one_task_and_stopped_in_another",
            f"{CONVERSATIONS}::test_a_client_opened_here_and_closed_there_leaves_the_same_conversation",
        ),
    ),
    Requirement(
        "G9",
        "a failed open leaves no task and no pending cancellation, and raises one plain exception",
        (
            f"{CLIENT}::test_opening_ends_at_once_for_what_is_permanent_and_raises_it_as_it_is",
            f"{CLIENT}::test_an_opener_that_is_cancelled_leaves_nothing_behind",
            f"{CHAOS_CLIENT}::test_a_cancelled_opener_leaves_no_process",
        ),
    ),
    Requirement(
        "G10",
        "a client is safe to share between tasks; one reconnect at a time; a stale error cannot tear down the fresh connection",
        (
            f"{CLIENT}::test_many_tasks_share_one_client_and_each_gets_its_own_answer",
            f"{CLIENT}::test_one_cancelled_user_disturbs_no_other",
            f"{CLIENT}::test_after_a_loss_everybody_is_served_by_one_reconnect",
            f"{CLIENT_TRANSPORTS}::test_what_an_old_transport_says_late_cannot_touch_the_new_one",
            f"{SIMULATION}::test_in_any_storm_everybody_is_told_the_truth_and_after_it_all_is_well",
        ),
    ),
    Requirement(
        "G11",
        "an abandoned call that was written is cancelled once; never the probe, the handshake, or what is still queued",
        (
            f"{CONVERSATIONS}::test_a_call_that_was_written_and_is_given_up_is_cancelled_once",
            f"{CONVERSATIONS}::test_a_call_that_was_never_written_is_never_cancelled",
            f"{CONVERSATIONS}::test_neither_the_probe_nor_the_handshake_is_ever_cancelled",
            f"{CLIENT_TRANSPORTS}::test_a_cancellation_that_finds_no_room_is_not_tried_again",
        ),
    ),
    Requirement(
        "G12",
        "a server exits within 1.5 s of the end of its input, whatever hangs: a thread, an executor, an atexit hook, the event loop, a client that does not read; a closed pipe is final",
        (
            f"{CHAOS_SERVER}::test_the_process_is_gone_within_a_second_and_a_half_of_the_end_of_its_input",
            f"{CHAOS_SERVER}::test_the_process_is_gone_in_time_with_every_thread_hung_and_its_hooks_have_run",
            f"{CHAOS_SERVER}::test_the_end_of_input_is_noticed_while_the_loop_is_blocked",
            f"{CHAOS_SERVER}::test_the_end_of_input_is_noticed_while_its_output_is_full",
            f"{CHAOS_SERVER}::test_an_atexit_hook_that_hangs_does_not_keep_the_process",
            f"{CHAOS_SERVER}::test_a_client_that_closes_its_end_of_our_stdout_is_gone",
        ),
    ),
    Requirement(
        "G13",
        "process groups: nothing that a server has started is left, unless it made a session or group of its own (setsid); exit is judged by return code; the ladder is bounded",
        (
            f"{CHAOS_CLIENT}::test_a_server_that_ignores_sigterm_is_killed_in_bounded_time",
            f"{CHAOS_CLIENT}::test_a_grandchild_that_holds_the_pipes_does_not_hold_the_caller",
            f"{CHAOS_CLIENT}::test_stopping_while_it_starts_leaves_no_process",
            f"{CHAOS_CHILDREN}::test_a_grandchild_in_a_session_of_its_own_delays_nothing_and_is_left",
        ),
    ),
    Requirement(
        "G14",
        "a child's stderr is always drained",
        (f"{CHAOS_CLIENT}::test_a_server_that_floods_stderr_is_not_frozen_by_it",),
    ),
    Requirement(
        "G15",
        "a print on stdout corrupts nothing: our server moves fd 1 away, our client skips and quotes the line",
        (
            f"{CHAOS_CLIENT}::test_what_a_server_prints_on_stdout_is_skipped",
            f"{CHAOS_SERVER}::test_what_a_tool_prints_goes_to_stderr_and_the_stream_stays_clean",
        ),
    ),
    Requirement(
        "G16",
        "framing is linear in the bytes: 16 MiB pass, more is a clean error",
        (
            f"{CHAOS_CLIENT}::test_a_line_of_sixteen_megabytes_passes_and_one_of_seventeen_ends_the_connection",
            f"{SERVER_DRIVER}::test_a_frame_over_the_limit_is_answered_and_the_connection_goes_on",
        ),
    ),
    Requirement(
        "G17",
        "soft and hard deadlines for each call, the soft one moved by progress; idle SSE streams are kept alive",
        (
            f"{CONVERSATIONS}::test_progress_moves_the_soft_deadline_and_never_the_hard_one",
            f"{HTTP_FAULTS}::test_a_long_call_lives_through_a_proxy_that_cuts_what_is_silent",
            f"{HTTP_SERVER}/test_post.py::test_a_call_that_takes_long_is_kept_alive",
            f"{HTTP_SERVER}/test_stream.py::test_silence_is_filled_and_noise_is_not",
        ),
    ),
    Requirement(
        "G18",
        "server sessions have an idle time to live and a cap, by default; an active request is never reaped",
        (
            f"{HTTP_IDLE}::test_a_thousand_idle_sessions_expire_in_time_and_leave_nothing",
            f"{HTTP_IDLE}::test_a_session_in_which_something_happens_is_never_taken",
            f"{HTTP_SERVER}/test_options.py::test_the_defaults_are_those_of_the_design",
            f"{HTTP_SERVER}/test_sessions.py::test_a_session_that_nothing_happens_in_is_forgotten",
            f"{HTTP_SERVER}/test_sessions.py::test_at_the_cap_the_session_that_was_idle_longest_makes_room",
            f"{HTTP_SERVER}/test_sessions.py::test_an_active_request_or_an_open_stream_keeps_a_session",
        ),
    ),
    Requirement(
        "G19",
        "stateless by default, sessions opt-in, an unknown session is a correct 404",
        (
            f"{HTTP_SERVER}/test_options.py::test_the_defaults_are_those_of_the_design",
            f"{HTTP_SERVER}/test_sessions.py::test_an_id_that_is_missing_malformed_or_unknown_is_refused",
            f"{HTTP_ROLLING}::test_any_worker_serves_any_request_and_none_knows_a_session_that_nobody_opened",
            f"{HTTP_ROLLING}::test_without_sessions_any_worker_serves_the_handshake_era_too",
            f"{HTTP_ROLLING}::test_workers_that_are_restarted_or_killed_under_load_hang_and_double_nothing",
            f"{HTTP_SECURITY}::test_session_ids_cannot_be_guessed",
        ),
    ),
    Requirement(
        "G20",
        "blocking tools run in a bounded pool; control messages never wait behind tools; a request pipelined after initialize is served",
        (
            f"{CHAOS_SERVER}::test_pings_are_answered_while_every_thread_is_blocked",
            f"{CHAOS_SERVER}::test_a_request_in_the_same_write_as_initialize_is_served",
            f"{SERVER_DRIVER}::test_a_request_pipelined_right_after_initialize_is_served",
        ),
    ),
    Requirement(
        "G21",
        "a server that hangs is found after a call timed out in silence, and restarted, by default; calls made meanwhile wait for the new one",
        (
            "tests/chaos/test_client_defaults.py::test_with_the_defaults_a_flaky_server_costs_only_the_calls_it_fails_in",
            "packages/jackstay/tests/protocol/client/test_recovery_hang.py::test_a_call_that_times_out_in_silence_leads_to_a_check_and_to_a_restart",
            "packages/jackstay/tests/protocol/client/test_recovery_hang.py::test_calls_made_during_the_check_wait_and_run_on_the_next_server",
        ),
    ),
)
