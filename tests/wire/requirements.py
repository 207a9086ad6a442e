"""The guarantees of docs/guarantees.md, each with the tests that verify it.

The docstring of each test cites the id of its guarantee; `test_requirements.py` checks this. `missing` describes what
is not tested yet.
"""

import msgspec

CALLS_LOSS = "packages/jackstay/tests/protocol/client/test_calls_loss.py"
CHAOS_CLIENT = "tests/chaos/test_client_hostile_servers.py"
CHAOS_CHILDREN = "tests/chaos/test_misbehaving_children.py"
CHAOS_DEFAULTS = "tests/chaos/test_client_defaults.py"
CHAOS_SERVER = "tests/chaos/test_server.py"
CHAOS_TASKS = "tests/chaos/test_tasks.py"
CLIENT = "packages/jackstay/tests/client/test_client.py"
CLIENT_TRANSPORTS = "packages/jackstay/tests/client/test_driver_transports.py"
CONVERSATIONS = "tests/wire/test_conversations.py"
HANG = "packages/jackstay/tests/protocol/client/test_recovery_hang.py"
HTTP_FAULTS = "tests/chaos/http/test_faults.py"
HTTP_IDLE = "tests/chaos/http/test_idle_sessions.py"
HTTP_ROLLING = "tests/chaos/http/test_rolling.py"
HTTP_SECURITY = "tests/chaos/http/test_security.py"
HTTP_SERVER = "packages/jackstay/tests/server/http"
HTTP_TRANSPORT = "packages/jackstay/tests/transport/http"
LINES = "packages/jackstay/tests/protocol/wire/test_lines.py"
RECOVERY_HTTP = "packages/jackstay/tests/protocol/client/test_recovery_http.py"
REQUESTS = "packages/jackstay/tests/client/test_requests.py"
SERVER_DRIVER = "packages/jackstay/tests/server/test_connection.py"
SERVER_TASKS = "packages/jackstay/tests/server/test_tasks.py"
SIMULATION = "tests/wire/test_simulation.py"
TASKS = "packages/jackstay/tests/client/test_tasks.py"
TASK_WORKER = "packages/jackstay/tests/server/test_task_worker.py"


class Requirement(msgspec.Struct, frozen=True):
    """One guarantee, and the tests (`path::name`) that verify it."""

    id: str
    text: str
    tests: tuple[str, ...]
    missing: str = ""


REQUIREMENTS = (
    Requirement(
        "G1",
        "If a stdio server dies during a call, everything that it sent is delivered first; then the open "
        "calls fail, with the exit code and the end of stderr",
        (
            f"{CHAOS_CLIENT}::test_a_response_in_the_pipe_of_a_dead_server_is_delivered",
            f"{CHAOS_CLIENT}::test_a_crash_is_reported_with_exit_code_and_stderr_and_the_server_is_restarted",
            f"{CHAOS_CLIENT}::test_a_server_killed_within_a_frame_leaves_no_call_waiting",
            f"{CHAOS_CLIENT}::test_a_grandchild_with_open_pipes_does_not_delay_the_caller",
        ),
    ),
    Requirement(
        "G2",
        "An HTTP response that ends before the JSON-RPC response raises `OutcomeUnknownError` at once",
        (
            f"{HTTP_FAULTS}::test_each_fault_ends_the_call_at_once",
            f"{HTTP_FAULTS}::test_with_random_faults_the_ledger_agrees_with_every_outcome",
            f"{HTTP_TRANSPORT}/test_over_sockets.py::test_a_response_that_ends_without_its_answer_fails_only_that_call",
            f"{HTTP_TRANSPORT}/test_posts.py::test_a_failing_request_fails_only_its_call",
        ),
    ),
    Requirement(
        "G3",
        "A request that fails does not affect other requests; its error has the cause",
        (
            f"{CONVERSATIONS}::test_a_request_that_fails_does_not_affect_others",
            f"{HTTP_FAULTS}::test_with_random_faults_the_ledger_agrees_with_every_outcome",
            f"{HTTP_TRANSPORT}/test_posts.py::test_a_failing_request_fails_only_its_call",
        ),
    ),
    Requirement(
        "G4",
        "An HTTP 404 for a session affects only its own request, which did not run: it is sent again in a new"
        " session, within `session_attempts` and its deadline. Sessions are opened one at a time, at once or "
        "after the backoff delay. A late 404 has no effect",
        (
            f"{HTTP_ROLLING}::test_after_a_redeployment_clients_open_a_new_session",
            f"{HTTP_ROLLING}::test_restarting_and_killing_workers_under_load_loses_and_duplicates_no_call",
            f"{RECOVERY_HTTP}::test_a_request_is_queued_again_for_every_404_until_its_attempts_are_used_up",
            f"{RECOVERY_HTTP}::test_a_new_session_that_is_lost_soon_only_delays_the_next",
            f"{CALLS_LOSS}::test_a_call_that_waits_for_a_new_session_at_its_deadline_reports_the_lost_session",
            f"{HTTP_TRANSPORT}/test_transport_forgotten.py::test_outcomes_behind_a_balancer_without_sticky_sessions",
            f"{HTTP_TRANSPORT}/test_over_sockets.py::test_after_a_redeploy_the_next_call_succeeds",
            f"{HTTP_TRANSPORT}/test_transport_sessions.py::test_a_lost_session_is_renewed_and_the_request_sent_again",
            f"{HTTP_TRANSPORT}/test_transport_sessions.py::test_many_rejected_requests_lead_to_one_new_session",
        ),
    ),
    Requirement(
        "G5",
        "A crashed stdio server is restarted; the first call after the crash was noticed succeeds within its "
        "deadline (unless `wait_for_ready` is off)",
        (
            f"{CHAOS_DEFAULTS}::test_with_default_settings_only_the_calls_in_which_the_server_fails_fail",
            f"{CHAOS_CLIENT}::test_after_a_kill_the_first_call_with_wait_for_ready_succeeds",
            f"{REQUESTS}::test_a_call_fails_before_open_and_waits_while_disconnected_unless_disabled",
            f"{CONVERSATIONS}::test_every_method_recovers_in_the_same_way",
            f"{SIMULATION}::test_with_random_faults_every_outcome_is_correct_and_the_client_recovers",
        ),
    ),
    Requirement(
        "G6",
        "Recovery is implemented below the API and is the same for every method",
        (f"{CONVERSATIONS}::test_every_method_recovers_in_the_same_way",),
    ),
    Requirement(
        "G7",
        'A call runs at most once, unless `replay="safe"` is set; for tasks see G24',
        (
            "tests/chaos/test_client_ledger.py::test_the_ledger_agrees_with_every_outcome",
            f"{HTTP_FAULTS}::test_with_random_faults_the_ledger_agrees_with_every_outcome",
            f"{HTTP_ROLLING}::test_restarting_and_killing_workers_under_load_loses_and_duplicates_no_call",
            f"{CONVERSATIONS}::test_every_method_recovers_in_the_same_way",
            f"{CONVERSATIONS}::test_safe_requests_are_replayed_once_on_request",
            f"{SIMULATION}::test_with_random_faults_every_outcome_is_correct_and_the_client_recovers",
        ),
    ),
    Requirement(
        "G8",
        "A client can be opened and closed from any task, in any order",
        (
            f"{CLIENT}::test_it_is_opened_in_one_task_and_stopped_in_another",
            f"{CLIENT}::test_stop_may_be_called_repeatedly_and_concurrently",
            f"{CLIENT}::test_stopping_before_the_first_step_of_opening_ends_at_once",
            f"{CONVERSATIONS}::test_a_client_can_be_opened_and_closed_in_different_tasks",
        ),
    ),
    Requirement(
        "G9",
        "A failed open leaves no task and no pending cancellation, and raises one exception, not an exception group",
        (
            f"{CLIENT}::test_open_raises_a_permanent_error_at_once_and_unchanged",
            f"{CLIENT}::test_a_cancelled_open_leaves_nothing_behind",
            f"{CHAOS_CLIENT}::test_cancelling_open_leaves_no_process",
        ),
    ),
    Requirement(
        "G10",
        "A client can be shared between tasks; there is one reconnect at a time; an error of an old "
        "connection cannot close the new one",
        (
            f"{CLIENT}::test_many_tasks_share_one_client_and_each_gets_its_own_answer",
            f"{CLIENT}::test_a_cancelled_call_does_not_affect_the_others",
            f"{CLIENT}::test_one_reconnect_serves_all_waiting_calls",
            f"{CLIENT_TRANSPORTS}::test_late_callbacks_of_an_old_transport_do_not_affect_the_new_one",
            f"{SIMULATION}::test_with_random_faults_every_outcome_is_correct_and_the_client_recovers",
        ),
    ),
    Requirement(
        "G11",
        "An abandoned call that was written is cancelled once. The probe, the handshake and queued calls are "
        "never cancelled",
        (
            f"{CONVERSATIONS}::test_a_written_call_is_cancelled_once",
            f"{CONVERSATIONS}::test_a_call_that_was_never_written_is_never_cancelled",
            f"{CONVERSATIONS}::test_neither_the_probe_nor_the_handshake_is_ever_cancelled",
            f"{CLIENT_TRANSPORTS}::test_a_cancellation_is_not_retried_without_room",
        ),
    ),
    Requirement(
        "G12",
        "A server exits within 1.5 s of the end of its input, even if something hangs: a thread, an executor,"
        " an `atexit` hook, the event loop, or a client that does not read. A closed pipe is final",
        (
            f"{CHAOS_SERVER}::test_the_process_ends_in_time_after_the_end_of_its_input",
            f"{CHAOS_SERVER}::test_the_process_ends_in_time_with_every_thread_hung_and_hooks_run",
            f"{CHAOS_SERVER}::test_the_end_of_input_is_noticed_while_the_loop_is_blocked",
            f"{CHAOS_SERVER}::test_the_end_of_input_is_noticed_while_its_output_is_full",
            f"{CHAOS_SERVER}::test_a_hung_atexit_hook_does_not_delay_the_end",
            f"{CHAOS_SERVER}::test_the_process_ends_if_its_stdout_is_closed",
        ),
    ),
    Requirement(
        "G13",
        "Process groups: no process that a server started is left, unless it has its own session or process "
        "group (`setsid`). Exit is detected by return code. Every step of shutting down a process has a time "
        "limit",
        (
            f"{CHAOS_CLIENT}::test_a_server_that_ignores_sigterm_is_killed",
            f"{CHAOS_CLIENT}::test_a_grandchild_with_open_pipes_does_not_delay_the_caller",
            f"{CHAOS_CLIENT}::test_stop_during_start_leaves_no_process",
            f"{CHAOS_CHILDREN}::test_a_grandchild_in_its_own_session_causes_no_delay_and_is_not_killed",
        ),
    ),
    Requirement(
        "G14",
        "The stderr of a child process is always drained",
        (f"{CHAOS_CLIENT}::test_a_server_that_floods_stderr_is_not_blocked",),
    ),
    Requirement(
        "G15",
        "A `print` to stdout does not corrupt the stream: our server redirects file descriptor 1, our client "
        "skips the line and quotes it in a warning",
        (
            f"{CHAOS_CLIENT}::test_invalid_lines_on_stdout_are_skipped",
            "packages/jackstay/tests/client/test_driver.py::test_invalid_lines_are_skipped_up_to_twenty_in_a_row",
            f"{CHAOS_SERVER}::test_the_output_of_tools_goes_to_stderr",
        ),
    ),
    Requirement(
        "G16",
        "Framing takes linear time: messages of 16 MiB are accepted, larger ones are a clean error",
        (
            f"{LINES}::test_no_byte_is_searched_twice",
            f"{LINES}::test_a_line_of_16_mib_is_joined_once",
            f"{CHAOS_CLIENT}::test_a_line_above_the_limit_ends_the_connection_with_an_error",
            f"{CHAOS_SERVER}::test_a_line_just_under_the_limit_is_served",
            f"{CHAOS_SERVER}::test_a_line_above_the_limit_is_refused_and_the_next_is_served",
            f"{SERVER_DRIVER}::test_a_frame_over_the_limit_gets_an_error_and_the_connection_continues",
        ),
    ),
    Requirement(
        "G17",
        "Each call has a soft and a hard deadline; progress extends the soft one. Idle SSE streams get keepalives",
        (
            f"{CONVERSATIONS}::test_progress_extends_the_soft_deadline_but_not_the_hard_one",
            f"{HTTP_FAULTS}::test_keepalives_protect_a_long_call_from_a_proxy_with_an_idle_timeout",
            f"{HTTP_SERVER}/test_post.py::test_a_call_that_takes_long_is_kept_alive",
            f"{HTTP_SERVER}/test_stream.py::test_keepalives_are_sent_on_a_silent_stream",
        ),
    ),
    Requirement(
        "G18",
        "Server sessions have an idle timeout and a maximum number by default; a session with an active "
        "request never expires",
        (
            f"{HTTP_IDLE}::test_a_thousand_idle_sessions_expire_in_time_and_leave_nothing",
            f"{HTTP_IDLE}::test_a_session_with_activity_does_not_expire",
            f"{HTTP_SERVER}/test_options.py::test_the_defaults",
            f"{HTTP_SERVER}/test_sessions.py::test_a_session_without_activity_expires",
            f"{HTTP_SERVER}/test_sessions.py::test_at_the_limit_the_longest_idle_session_is_evicted",
            f"{HTTP_SERVER}/test_sessions.py::test_an_active_request_or_an_open_stream_keeps_a_session",
        ),
    ),
    Requirement(
        "G19",
        "HTTP servers are stateless by default, sessions are optional, and an unknown session gets 404",
        (
            f"{HTTP_SERVER}/test_options.py::test_the_defaults",
            f"{HTTP_SERVER}/test_sessions.py::test_an_id_that_is_missing_malformed_or_unknown_is_refused",
            f"{HTTP_ROLLING}::test_any_worker_serves_any_request",
            f"{HTTP_ROLLING}::test_without_sessions_any_worker_serves_earlier_revisions",
            f"{HTTP_ROLLING}::test_restarting_and_killing_workers_under_load_loses_and_duplicates_no_call",
            f"{HTTP_SECURITY}::test_session_ids_cannot_be_guessed",
        ),
    ),
    Requirement(
        "G20",
        "Blocking tools run in a bounded thread pool; control messages never wait for tools; a request "
        "pipelined after `initialize` is served",
        (
            "packages/jackstay/tests/server/test_pool.py::test_the_number_of_threads_is_limited_and_idle_threads_are_reused",
            f"{CHAOS_SERVER}::test_pings_are_answered_while_every_thread_is_blocked",
            f"{CHAOS_SERVER}::test_a_request_in_the_same_write_as_initialize_is_served",
            f"{SERVER_DRIVER}::test_a_request_pipelined_right_after_initialize_is_served",
        ),
    ),
    Requirement(
        "G21",
        "A server that hangs is detected after a call timed out without any message from the server, and is "
        "restarted, by default; calls made meanwhile wait for the new one",
        (
            f"{CHAOS_DEFAULTS}::test_with_default_settings_only_the_calls_in_which_the_server_fails_fail",
            f"{HANG}::test_a_call_that_times_out_in_silence_leads_to_a_check_and_a_restart",
            f"{HANG}::test_calls_made_during_the_check_wait_and_run_on_the_next_server",
        ),
    ),
    Requirement(
        "G22",
        "From the moment a client has a task, its call ends with the outcome of the task, or at its deadline: "
        "while the server's store has the task, neither a lost connection nor a restart of the server makes "
        "the outcome unknown",
        (
            f"{TASKS}::test_a_call_that_times_out_or_is_cancelled_cancels_its_task",
            f"{TASKS}::test_a_lost_connection_does_not_lose_the_outcome",
            f"{CHAOS_TASKS}::test_a_task_of_a_killed_server_is_run_again_if_its_tool_allows_it",
            f"{CHAOS_TASKS}::test_workers_are_killed_and_started_apart_from_the_server",
        ),
    ),
    Requirement(
        "G23",
        "Between our client and our server, a call that becomes a task is sent again if its response was "
        "lost, and is one task nevertheless. Calls of other tools are not sent again",
        (
            f"{TASKS}::test_a_lost_connection_does_not_lose_the_outcome",
            f"{TASKS}::test_a_lost_call_of_another_tool_is_not_sent_again",
            f"{SERVER_TASKS}::test_a_call_that_is_sent_again_with_its_key_is_one_task",
        ),
    ),
    Requirement(
        "G24",
        "A task that was created is stored, and ends once. A tool runs at most once, unless it is annotated "
        "as idempotent or read-only: if its worker dies, the task fails with an unknown outcome, and the "
        "client raises `OutcomeUnknownError`. With Redis, a replica that is promoted without the last writes may "
        "lose an end, and one that did not confirm a run may repeat it",
        (
            f"{CHAOS_TASKS}::test_a_task_of_a_killed_server_is_run_again_if_its_tool_allows_it",
            f"{CHAOS_TASKS}::test_a_task_of_a_killed_server_is_not_run_again_otherwise",
            f"{CHAOS_TASKS}::test_workers_are_killed_and_started_apart_from_the_server",
            f"{TASKS}::test_a_cancelled_or_lost_task_has_no_known_outcome",
            "packages/jackstay/tests/redis/test_tasks.py::test_a_run_that_must_not_be_repeated_begins_only_if_a_replica_has_it",
            f"{TASK_WORKER}::test_a_worker_without_its_store_stops_a_repeatable_task_and_its_end_is_refused",
            "packages/jackstay/tests/server/test_task_store.py::test_whatever_happens_a_task_ends_once_and_a_once_task_runs_once",
        ),
    ),
    Requirement(
        "G25",
        "With a task log, a client finds the tasks of a process that was killed, and their outcome",
        (
            f"{TASKS}::test_another_process_finds_the_tasks_of_the_log",
            f"{CHAOS_TASKS}::test_a_client_that_was_killed_finds_its_task_again",
        ),
    ),
    Requirement(
        "G26",
        "No task waits forever: the tasks of a dead worker are given up or repeated by any other worker, and "
        "every task expires. After an outage of the store, the leases of all workers begin again",
        (
            f"{TASK_WORKER}::test_the_outcome_of_a_task_whose_worker_died_is_unknown_and_it_never_runs_again",
            f"{TASK_WORKER}::test_a_repeatable_task_whose_worker_died_runs_again",
            f"{TASK_WORKER}::test_an_outage_of_the_store_is_no_death_of_its_workers",
            f"{SERVER_TASKS}::test_a_task_expires",
        ),
    ),
)
