"""The threats that a chat server at home meets, line by line, each with the tests that show what is done.

The first table of the reliability plan has these lines. A test is named by its file and its function.
"""

from __future__ import annotations

import ast
import re
from importlib import metadata
from pathlib import Path

import pytest

import web
from web.commands import Command
from web.opening import ChosenParams, Opening
from web.server import listen, uvicorn_config
from web.settings import Settings

TESTS = Path(__file__).resolve().parents[1]
WEB = Path(web.__file__).parent

THREATS: dict[str, list[str]] = {
    "exposed without a lock": [
        "reliability/test_threats.py::test_it_listens_on_this_machine_alone_unless_it_is_shared",
        "web/test_sharing.py::test_without_a_session_every_page_is_the_pairing_page",
        "web/test_sharing.py::test_without_a_session_nothing_is_changed_and_no_socket_opens",
        "web/test_access.py::test_connections_from_or_to_public_addresses_are_refused",
        "web/test_cli.py::test_shared_it_prints_what_connects_devices_and_lets_them_in",
        "web/test_metrics.py::test_on_a_shared_server_a_scraper_needs_a_session",
    ],
    "DNS rebinding": [
        "reliability/test_host_and_origin.py::test_its_own_names_are_answered_and_every_other_is_refused_before_who_asks_is_looked_at",
        "reliability/test_host_and_origin.py::test_what_lets_people_in_is_not_taken_under_a_foreign_name",
        "browser/test_cross_site.py::test_a_name_that_leads_here_all_of_a_sudden_is_refused",
        "web/test_lan.py::test_it_answers_to_its_names_and_addresses_with_its_port_alone",
    ],
    "cross-site WebSocket hijack": [
        "reliability/test_host_and_origin.py::test_sockets_and_changes_are_for_pages_of_the_very_same_address",
        "browser/test_cross_site.py::test_another_sites_page_changes_nothing_reads_nothing_and_frames_nothing",
    ],
    "CORS": [
        "reliability/test_headers.py::test_every_answer_has_the_headers",
        "browser/test_cross_site.py::test_another_sites_page_changes_nothing_reads_nothing_and_frames_nothing",
    ],
    "CSRF and deep links": [
        "reliability/test_headers.py::test_asking_for_every_address_there_is_changes_nothing",
        "reliability/test_host_and_origin.py::test_another_sites_page_gets_nothing_where_the_browser_says_so",
        "reliability/test_host_and_origin.py::test_sockets_and_changes_are_for_pages_of_the_very_same_address",
        "web/test_access.py::test_a_url_can_neither_send_nor_change_anything",
        "web/test_sharing.py::test_the_session_cookie_is_for_this_server_and_its_own_pages_only",
    ],
    "scripts in output": [
        "browser/test_hostile.py::test_two_thousand_hostile_texts_run_nothing_ask_for_nothing_and_stay_readable",
        "web/test_markdown.py::test_hostile_text_leaves_nothing_that_acts",
        "web/test_streaming_markdown.py::test_two_thousand_hostile_texts_stream_as_the_whole",
    ],
    # A mermaid block is one of the hostile texts: it is code like any other.
    "diagrams": ["web/test_markdown.py::test_hostile_text_leaves_nothing_that_acts"],
    "exfiltration by rendering": [
        "web/test_markdown.py::test_an_image_becomes_its_text_and_target",
        "web/test_markdown.py::test_links_say_where_they_lead_and_leave_nothing_behind",
        "browser/test_hostile.py::test_two_thousand_hostile_texts_run_nothing_ask_for_nothing_and_stay_readable",
        "browser/test_cross_site.py::test_who_follows_a_link_out_of_a_reply_does_not_say_from_where",
        "reliability/test_headers.py::test_every_answer_has_the_headers",
    ],
    "path traversal": [
        "web/test_transfer.py::test_no_title_becomes_a_path_or_another_header",
        "web/test_transfer.py::test_hostile_ids_are_not_found_and_tell_of_no_folder",
        "web/test_transfer.py::test_hostile_names_in_a_file_stay_names",
        "storage/test_transfer_limits.py::test_names_in_a_zip_are_never_paths",
        "inference/models/test_safetensors_folder.py::test_an_index_cannot_point_elsewhere",
    ],
    "code in models": [
        "inference/models/test_safetensors_folder.py::test_a_models_own_code_is_refused",
        "inference/models/test_safetensors_folder.py::test_code_in_a_nested_configuration_is_refused",
        "inference/models/test_safetensors_folder.py::test_a_kernel_from_another_repository_is_refused",
        "inference/models/test_safetensors_folder.py::test_pickle_only_folders_are_refused_unread",
        "inference/models/test_safetensors_folder.py::test_pickles_beside_safetensors_stay_unread",
        "reliability/test_threats.py::test_libraries_with_known_holes_are_not_accepted",
        "reliability/test_threats.py::test_no_client_chooses_a_model_or_how_it_is_loaded",
    ],
    "chat templates": [
        "inference/test_template_sandbox.py::test_a_template_cannot_leave_its_sandbox",
        "inference/test_template_sandbox.py::test_a_template_that_burns_time_or_memory_is_ended",
        "reliability/test_threats.py::test_no_client_chooses_a_model_or_how_it_is_loaded",
    ],
    "requests forged by the server": [
        "reliability/test_outbound.py::test_whatever_would_leave_this_machine_is_refused_and_noted",
        "reliability/test_outbound.py::test_processes_that_tests_begin_are_guarded_and_pip_alone_is_not",
        "inference/models/test_hub.py::test_a_second_start_asks_nobody",
    ],
    "denial of service": [
        "web/test_waiting.py::test_500_silent_connections_are_capped_and_a_paired_device_is_served",
        "web/test_waiting.py::test_who_never_finishes_a_request_is_cut_off",
        "web/test_tls.py::test_who_begins_no_handshake_is_cut_off",
        "web/test_protocol.py::test_anything_else_is_refused_in_a_sentence",
        "inference/test_sampling_params.py::test_values_out_of_range_are_refused_with_the_range",
        "storage/test_transfer_limits.py::test_bombs_are_refused_in_a_sentence_and_take_no_memory",
        "reliability/test_threats.py::test_frames_are_small_and_not_compressed",
    ],
    "whose it is": [
        "web/test_people.py::test_an_address_with_anothers_id_is_answered_like_one_with_no_ones",
        "web/test_people.py::test_a_command_with_anothers_id_is_answered_like_one_with_no_ones",
        "web/test_people.py::test_a_command_by_post_is_checked_as_on_the_socket",
    ],
    "trust in URLs": [
        "reliability/test_host_and_origin.py::test_a_whole_address_in_the_request_line_is_no_way_around_the_host",
        "reliability/test_threats.py::test_libraries_with_known_holes_are_not_accepted",
        "reliability/test_threats.py::test_nothing_is_decided_by_an_address_that_the_client_composed",
    ],
    "sessions and guessing": [
        "reliability/test_guessing.py::test_a_thousand_wrong_guesses_wait_ever_longer_and_keep_nobody_else_out",
        "reliability/test_guessing.py::test_passwords_guessed_all_at_once_are_as_few_as_one_after_another",
        "reliability/test_guessing.py::test_secrets_are_compared_in_constant_time_alone",
        "web/test_sharing.py::test_a_browser_that_joins_again_has_a_new_session_and_the_old_one_is_over",
        "web/test_sharing.py::test_neither_sessions_nor_secrets_are_on_the_disk",
        "web/test_account.py::test_a_new_password_ends_every_session_and_this_browsers_gets_a_new_id",
        "web/test_device_list.py::test_a_disconnected_device_is_out_on_all_its_tabs_within_a_second",
        "web/test_device_list.py::test_the_26th_device_is_refused_with_the_numbers",
    ],
    "secrets in URLs and pictures": [
        "browser/test_devices.py::test_the_owners_phone_that_scanned_the_code_chats_and_the_computer_watches",
        "web/test_pairing.py::test_a_code_is_good_for_two_minutes",
        "web/test_sharing.py::test_a_code_is_used_up_by_one_of_twenty_who_try_at_once",
        "reliability/test_secrets.py::test_a_secret_is_found_wherever_it_leaks_to",
        "reliability/test_secrets.py::test_no_page_has_a_secret_and_the_sheet_for_a_new_device_has_its_code_alone",
        "reliability/test_secrets.py::test_the_process_says_them_once_in_the_terminal_and_nowhere_else",
    ],
    "plain HTTP and proxies": [
        "web/test_tls.py::test_pages_sockets_and_cookies_are_encrypted_and_the_certificate_is_checked",
        "web/test_tls.py::test_everything_that_names_an_address_says_https_and_the_fingerprint_is_shown",
        "web/test_sharing.py::test_without_a_session_every_page_is_the_pairing_page",
        "web/test_sharing.py::test_the_session_cookie_is_for_this_server_and_its_own_pages_only",
        "web/test_access.py::test_forwarded_requests_are_refused",
    ],
}
DOES_NOT_APPLY = {
    "an XSRF cookie": "every change has to name its own Origin exactly, and a missing one is refused",
    "KaTeX": "formulas become MathML on the server, without a script",
    "one model of several, chosen by its index": "the owner chooses it at the start; no client names any",
    "rendering templates in the worker": "they run in pool threads, in a sandbox that ends them",
    "trusted proxies": "there are none: forwarded requests are refused",
    "Local Network Access prompts": "browsers differ; nothing here counts on them",
}
"""What the table advises that has no place here, each with the reason."""


def test_every_line_names_tests_that_exist() -> None:
    assert len(THREATS) == 18
    for line, tests in THREATS.items():
        assert tests, line
        for test in tests:
            file, _, name = test.partition("::")
            tree = ast.parse((TESTS / file).read_text())
            assert name in {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}, test


def test_it_listens_on_this_machine_alone_unless_it_is_shared() -> None:
    assert not Settings().lan
    with listen(Settings().host, 0) as listener:
        assert listener.getsockname()[0] == "127.0.0.1"


@pytest.mark.parametrize(
    ("library", "fixed"),
    [("starlette", (1, 3, 1)), ("transformers", (5, 3, 0)), ("uvicorn", (0, 52, 1)), ("jinja2", (3, 1, 6))],
)
def test_libraries_with_known_holes_are_not_accepted(library: str, fixed: tuple[int, ...]) -> None:
    (needed,) = (each for each in metadata.requires("ondol") or () if re.match(rf"{library}\b", each))
    least = re.search(r">=([\d.]+)", needed)
    assert least is not None
    numbers = tuple(int(part) for part in least.group(1).split("."))
    assert numbers + (0,) * (3 - len(numbers)) >= fixed
    assert tuple(int(part) for part in metadata.version(library).split(".")[:3]) >= fixed


def test_no_client_chooses_a_model_or_how_it_is_loaded() -> None:
    """Commands and settings have these fields and take no others."""
    asked = [*Command.__subclasses__(), Opening, ChosenParams]
    fields = {name for each in asked for name in each.__struct_fields__}
    assert all(each.__struct_config__.forbid_unknown_fields for each in asked)
    assert {
        name for name in fields if re.search("model|backend|template|kwargs|remote|code|path|url", name)
    } == set()


def test_frames_are_small_and_not_compressed() -> None:
    config = uvicorn_config(lambda scope, receive, send: None)  # type: ignore[arg-type, return-value]
    assert config.ws_max_size == 65_536
    assert config.ws_per_message_deflate is False
    assert config.proxy_headers is False


def test_nothing_is_decided_by_an_address_that_the_client_composed() -> None:
    """`request.url` is made of the Host header and more; here it only says which address to name first."""
    used = [
        (file.name, match)
        for file in sorted(WEB.glob("*.py"))
        for match in re.findall(r"(?:request|connection|socket)\.(?:url\w*|base_url)\b.*", file.read_text())
    ]
    assert used == [("devices.py", 'request.url.hostname or "")')]
