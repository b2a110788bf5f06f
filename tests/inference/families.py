"""Chat templates in the style of well-known families, written for these tests, and what each is like."""

from __future__ import annotations

from dataclasses import dataclass

CHATML = """\
{%- for message in messages %}
{{- '<|im_start|>' + message.role + '\\n' + message.content + '<|im_end|>' + '\\n' }}
{%- endfor %}
{%- if add_generation_prompt %}
{{- '<|im_start|>assistant\\n' }}
{%- endif %}
"""

LLAMA3 = """\
{{- bos_token }}
{%- if messages[0]['role'] == 'system' %}
    {%- set system_message = messages[0]['content'] | trim %}
    {%- set messages = messages[1:] %}
{%- else %}
    {%- set system_message = '' %}
{%- endif %}
{{- '<|start_header_id|>system<|end_header_id|>\\n\\n' }}
{%- if date_string is not defined %}
    {%- if strftime_now is defined %}
        {%- set date_string = strftime_now('%d %b %Y') %}
    {%- else %}
        {%- set date_string = '26 Jul 2024' %}
    {%- endif %}
{%- endif %}
{{- 'Today: ' + date_string + '\\n\\n' + system_message + '<|eot_id|>' }}
{%- for message in messages %}
    {{- '<|start_header_id|>' + message['role'] + '<|end_header_id|>\\n\\n' }}
    {{- message['content'] | trim + '<|eot_id|>' }}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|start_header_id|>assistant<|end_header_id|>\\n\\n' }}
{%- endif %}
"""

MISTRAL = """\
{{- bos_token }}
{%- for message in messages %}
    {%- if (message['role'] == 'user') != (loop.index0 % 2 == 0) %}
        {{- raise_exception('Roles must go user, assistant, user, assistant') }}
    {%- endif %}
    {%- if message['role'] == 'user' %}
        {{- '[INST] ' + message['content'] + ' [/INST]' }}
    {%- else %}
        {{- ' ' + message['content'] | trim + eos_token }}
    {%- endif %}
{%- endfor %}
"""

GEMMA = """\
{{- bos_token }}
{%- if messages[0]['role'] == 'system' %}
    {{- raise_exception('System role not supported') }}
{%- endif %}
{%- for message in messages %}
    {%- if (message['role'] == 'user') != (loop.index0 % 2 == 0) %}
        {{- raise_exception('Conversation roles must alternate') }}
    {%- endif %}
    {%- set role = 'model' if message['role'] == 'assistant' else message['role'] %}
    {{- '<start_of_turn>' + role + '\\n' + message['content'] | trim + '<end_of_turn>\\n' }}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<start_of_turn>model\\n' }}
{%- endif %}
"""

QWEN3 = """\
{%- set ns = namespace(last_query=messages | length - 1, searching=true) %}
{%- for message in messages[::-1] %}
    {%- set index = (messages | length - 1) - loop.index0 %}
    {%- if ns.searching and message.role == 'user' and message.content is string %}
        {%- set ns.searching = false %}
        {%- set ns.last_query = index %}
    {%- endif %}
{%- endfor %}
{%- for message in messages %}
    {%- if message.role != 'assistant' %}
        {{- '<|im_start|>' + message.role + '\\n' + message.content + '<|im_end|>\\n' }}
    {%- else %}
        {%- set content = message.content %}
        {%- set reasoning = '' %}
        {%- if message.reasoning_content is string %}
            {%- set reasoning = message.reasoning_content %}
        {%- elif '</think>' in content %}
            {%- set reasoning = content.split('</think>')[0].split('<think>')[-1] %}
            {%- set content = content.split('</think>')[-1] %}
        {%- endif %}
        {{- '<|im_start|>assistant\\n' }}
        {%- if loop.index0 > ns.last_query and (loop.last or reasoning) %}
            {{- '<think>\\n' + reasoning.strip('\\n') + '\\n</think>\\n\\n' }}
        {%- endif %}
        {{- content.lstrip('\\n') + '<|im_end|>\\n' }}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|im_start|>assistant\\n' }}
    {%- if enable_thinking is defined and enable_thinking is false %}
        {{- '<think>\\n\\n</think>\\n\\n' }}
    {%- endif %}
{%- endif %}
"""

KEEPS_REASONING = QWEN3.replace("loop.index0 > ns.last_query and (loop.last or reasoning)", "reasoning")
"""As Qwen3, for a model that reads its earlier reasoning again."""

DEEPSEEK_R1 = """\
{{- bos_token }}
{%- set ns = namespace(system='') %}
{%- for message in messages if message['role'] == 'system' %}
    {%- set ns.system = message['content'] %}
{%- endfor %}
{{- ns.system }}
{%- for message in messages %}
    {%- if message['role'] == 'user' %}
        {{- '<|User|>' + message['content'] }}
    {%- elif message['role'] == 'assistant' %}
        {%- set content = message['content'] %}
        {%- if '</think>' in content %}
            {%- set content = content.split('</think>')[-1] %}
        {%- endif %}
        {{- '<|Assistant|>' + content + '<|end|>' }}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|Assistant|><think>\\n' }}
{%- endif %}
"""

SMOLLM3 = """\
{%- if enable_thinking is not defined %}{% set enable_thinking = true %}{% endif %}
{{- '<|im_start|>system\\n' ~ strftime_now('%d %B %Y') }}
{{- '\\nMode: ' ~ ('/think' if enable_thinking else '/no_think') ~ '<|im_end|>\\n' }}
{%- for message in messages %}
    {%- if message.role == 'assistant' %}
        {% generation %}
        {{- '<|im_start|>assistant\\n' + message.content + '<|im_end|>\\n' }}
        {% endgeneration %}
    {%- else %}
        {{- '<|im_start|>' + message.role + '\\n' + message.content + '<|im_end|>\\n' }}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|im_start|>assistant\\n' ~ ('' if enable_thinking else '<think>\\n\\n</think>\\n') }}
{%- endif %}
"""

SPECIALS = (
    "<|im_start|>",
    "<|im_end|>",
    "<s>",
    "</s>",
    "[INST]",
    "[/INST]",
    "<start_of_turn>",
    "<end_of_turn>",
) + ("<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>", "<|User|>", "<|Assistant|>", "<|end|>")


@dataclass(frozen=True, slots=True)
class Family:
    """What a template is found to be like. `reasoning` is (opening, closing, opened) with thinking on."""

    name: str
    template: str
    takes_system: bool = True
    takes_repeats: bool = True
    thinking_switch: str | None = None
    reasoning: tuple[str, str, bool] | None = None
    has_bos: bool = True


THINK = ("<think>", "</think>")
FAMILIES = (
    Family("chatml", CHATML, has_bos=False),
    Family("llama3", LLAMA3),
    Family("mistral", MISTRAL, takes_system=False, takes_repeats=False),
    Family("gemma", GEMMA, takes_system=False, takes_repeats=False),
    Family("qwen3", QWEN3, thinking_switch="enable_thinking", reasoning=(*THINK, False), has_bos=False),
    Family("r1", DEEPSEEK_R1, reasoning=(*THINK, True)),
    Family("smollm3", SMOLLM3, thinking_switch="enable_thinking", reasoning=(*THINK, False), has_bos=False),
)
