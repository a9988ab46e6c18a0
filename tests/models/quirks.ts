/**
 * What endpoints and models send, from public reports, and what has to become of it. `sent` is the body of a streamed
 * answer as a list of pieces, or an error as `[status, body]`; text alone is an answer of one piece.
 */
export type Quirk = {
  name: string;
  sent: string | object[] | { status: number; body: string; type?: string; headers?: Record<string, string> };
  is:
    | { text: string; unfinished?: string; truncated?: true }
    | { calls: Array<[tool: string, args: object | string]>; text?: string }
    | { fault: string; says?: RegExp; hint?: 'call'; window?: number };
};

const piece = (delta: object, finish_reason: string | null = null) => ({
  choices: [{ index: 0, delta, finish_reason }],
});
const two = { command: 'echo two >> log.txt' };
const TWO = JSON.stringify(two);
const three = { command: 'echo three >> log.txt' };
const THREE = JSON.stringify(three);

/** The same call in the syntax of many models, passed on as text by an endpoint whose parser does not know it. */
const asText: Quirk[] = [
  ['Hermes, Qwen', `<tool_call>\n{"name": "shell", "arguments": ${TWO}}\n</tool_call>`],
  [
    'Qwen3-Coder',
    '<tool_call>\n<function=shell>\n<parameter=command>\necho two >> log.txt\n</parameter>\n</function>\n</tool_call>',
  ],
  [
    'Qwen3-Coder without its outer tag',
    '<function=shell>\n<parameter=command>\necho two >> log.txt\n</parameter>\n</function>',
  ],
  ['Llama, Groq', `<function=shell>${TWO}</function>`],
  ['Llama, python_tag', `<|python_tag|>{"name": "shell", "parameters": ${TWO}}<|eom_id|>`],
  ['Mistral', `[TOOL_CALLS][{"name": "shell", "arguments": ${TWO}}]`],
  ['Mistral, newer', `[TOOL_CALLS]shell[ARGS]${TWO}`],
  [
    'DeepSeek V3',
    `<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>shell\n\`\`\`json\n${TWO}\n\`\`\`<｜tool▁call▁end｜><｜tool▁calls▁end｜>`,
  ],
  [
    'DeepSeek V3.1',
    `<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>shell<｜tool▁sep｜>${TWO}<｜tool▁call▁end｜><｜tool▁calls▁end｜>`,
  ],
  [
    'DSML',
    '<｜DSML｜tool_calls>\n<｜DSML｜invoke name="shell">\n<｜DSML｜parameter name="command" string="true">echo two >> log.txt</｜DSML｜parameter>\n</｜DSML｜invoke>\n</｜DSML｜tool_calls>',
  ],
  [
    'Claude',
    '<function_calls>\n<invoke name="shell">\n<parameter name="command">echo two >> log.txt</parameter>\n</invoke>\n</function_calls>',
  ],
  [
    'MiniMax',
    '<minimax:tool_call>\n<invoke name="shell">\n<parameter name="command">echo two >> log.txt</parameter>\n</invoke>\n</minimax:tool_call>',
  ],
  ['GLM', '<tool_call>shell\n<arg_key>command</arg_key>\n<arg_value>echo two >> log.txt</arg_value>\n</tool_call>'],
  ['gpt-oss', `<|channel|>commentary to=functions.shell <|constrain|>json<|message|>${TWO}<|call|>`],
  [
    'Kimi',
    `<|tool_calls_section_begin|><|tool_call_begin|>functions.shell:0<|tool_call_argument_begin|>${TWO}<|tool_call_end|><|tool_calls_section_end|>`,
  ],
  ['Granite', `<|tool_call|>[{"name": "shell", "arguments": ${TWO}}]`],
  ['Cohere', `<|START_ACTION|>[{"tool_call_id": "0", "tool_name": "shell", "parameters": ${TWO}}]<|END_ACTION|>`],
  ['InternLM', `<|action_start|><|plugin|>{"name": "shell", "parameters": ${TWO}}<|action_end|>`],
  ['Phi', `functools[{"name": "shell", "arguments": ${TWO}}]`],
  ['Nemotron', `<TOOLCALL>[{"name": "shell", "arguments": ${TWO}}]</TOOLCALL>`],
  ['Apertus', `<|tools_prefix|>[{"shell": ${TWO}}]<|tools_suffix|>`],
  ['FunctionGemma', '<start_function_call>call:shell{command:<escape>echo two >> log.txt<escape>}<end_function_call>'],
  ['LFM2', '<|tool_call_start|>[shell(command="echo two >> log.txt")]<|tool_call_end|>'],
  ['Llama 4', '[shell(command="echo two >> log.txt")]'],
  ['Llama 4 with texts in single quotes', "[shell(command='echo two >> log.txt')]"],
  ['Gemma', '```tool_code\nshell(command="echo two >> log.txt")\n```'],
  ['JSON alone', `{"name": "shell", "arguments": ${TWO}}`],
  ['JSON in a code block', `\`\`\`json\n{"name": "shell", "arguments": ${TWO}}\n\`\`\``],
  ['JSON with its arguments as text', JSON.stringify({ name: 'shell', arguments: TWO })],
  [
    'JSON as OpenAI writes it',
    JSON.stringify({ tool_calls: [{ type: 'function', function: { name: 'shell', arguments: TWO } }] }),
  ],
  ['LangChain', `Action: shell\nAction Input: ${TWO}`],
  ['Cline', '<shell>\n<command>echo two >> log.txt</command>\n</shell>'],
].map(([name, sent]) => ({ name: `a call as text: ${name}`, sent: `${sent}`, is: { calls: [['shell', two]] } }));

const moreText: Quirk[] = [
  {
    name: 'two calls as text, with a report before them',
    sent: `[Done: one is appended]\n\n<tool_call>\n{"name": "shell", "arguments": ${TWO}}\n</tool_call>\n<tool_call>\n{"name": "shell", "arguments": ${THREE}}\n</tool_call>`,
    is: {
      calls: [
        ['shell', two],
        ['shell', three],
      ],
      text: '[Done: one is appended]',
    },
  },
  {
    name: 'a call as text that a claim of its end follows',
    sent: `\`\`\`json\n{"name": "shell", "arguments": ${TWO}}\n\`\`\`\n[Done: two is appended]`,
    is: { fault: 'malformed', hint: 'call' },
  },
  {
    name: 'a call as text with the result that the model imagines',
    sent: `{"name": "shell", "arguments": ${TWO}}\nTwo has been appended.`,
    is: { fault: 'malformed', hint: 'call' },
  },
  {
    name: 'a call in a code block under the steps and reports that the daemon reads',
    sent: `[Step] Append one\n[Done: one is appended]\n\`\`\`json\n{"name": "shell", "arguments": ${TWO}}\n\`\`\``,
    is: { calls: [['shell', two]], text: '[Step] Append one\n[Done: one is appended]' },
  },
  {
    name: 'a call in a code block under an announcement',
    sent: `I append it now:\n\`\`\`json\n{"name": "shell", "arguments": ${TWO}}\n\`\`\``,
    is: { fault: 'malformed', hint: 'call' },
  },
  {
    name: 'a call as text that breaks off',
    sent: '<tool_call>\n{"name": "shell", "arguments": {"command": "echo',
    is: { fault: 'malformed', hint: 'call' },
  },
  {
    name: 'a call as text of a tool that is not on offer',
    sent: '<tool_call>\n{"name": "rm_rf", "arguments": {}}\n</tool_call>',
    is: { fault: 'malformed', hint: 'call' },
  },
  {
    name: 'a call as text without an argument that it needs',
    sent: '<tool_call>\n{"name": "shell", "arguments": {}}\n</tool_call>',
    is: { fault: 'malformed', hint: 'call' },
  },
  ...[
    'It looks so:\n```\n<tool_call>\n{"name": "shell", "arguments": {"command": "ls"}}\n</tool_call>\n```\nThe tag closes it.',
    'A call is written `{"name": "shell", "arguments": {"command": "ls"}}` in that format.',
    'The configuration is\n```json\n{"name": "my-package", "version": "1.0.0"}\n```',
    'Run it in a shell (bash):\n```bash\nls -la\n```',
    '{"steps": ["use the shell", "read_file the log"]}',
    'Call `shell(command="ls")` to see the files of the folder.',
    '<p>Hello <b>shell</b></p>',
  ].map((sent) => ({ name: `no call: ${JSON.stringify(sent).slice(0, 60)}`, sent, is: { text: sent } })),
];

const finishes: Quirk[] = [
  ...['stop', 'eos', 'end_turn', 'STOP', 'eos_token'].map((finish) => ({
    name: `finish_reason ${finish}`,
    sent: [piece({ content: 'Fine.' }, finish)],
    is: { text: 'Fine.' },
  })),
  ...['length', 'max_tokens', 'MAX_TOKENS', 'model_context_window_exceeded'].map(
    (finish): Quirk => ({
      name: `finish_reason ${finish}`,
      sent: [piece({ content: 'In 2024 it' }, finish)],
      is: { text: 'In 2024 it', truncated: true },
    }),
  ),
  ...['content_filter', 'SAFETY', 'RECITATION', 'something_new', 'refusal', 'sensitive'].map((finish) => ({
    name: `finish_reason ${finish}`,
    sent: [piece({ content: 'In 2024 it' }, finish)],
    is: { text: 'In 2024 it', unfinished: finish },
  })),
  ...['insufficient_system_resource', 'network_error', 'cancelled', 'abort', 'error'].map((finish) => ({
    name: `finish_reason ${finish}`,
    sent: [piece({ content: 'In 2024 it' }, finish)],
    is: { fault: 'malformed', says: new RegExp(finish) },
  })),
  {
    name: 'finish_reason malformed_function_call',
    sent: [piece({ content: 'I append' }, 'malformed_function_call')],
    is: { fault: 'malformed', hint: 'call' },
  },
  ...['tool_calls', 'function_call', 'tool_use'].map(
    (finish): Quirk => ({
      name: `finish_reason ${finish} without a call`,
      sent: [piece({ content: 'I will append it now.' }, finish)],
      is: { fault: 'malformed', says: /I will append it now/, hint: 'call' },
    }),
  ),
];

const calls: Quirk[] = [
  {
    name: 'a call in the old form',
    sent: [piece({ content: 'Writing two.', function_call: { name: 'shell', arguments: TWO } }, 'function_call')],
    is: { calls: [['shell', two]], text: 'Writing two.' },
  },
  {
    name: 'a call in the old form, in pieces',
    sent: [
      piece({ function_call: { name: 'shell', arguments: '' } }),
      piece({ function_call: { arguments: TWO.slice(0, 9) } }),
      piece({ function_call: { arguments: TWO.slice(9) } }, 'function_call'),
    ],
    is: { calls: [['shell', two]] },
  },
  {
    name: 'pieces with `message` in place of `delta`',
    sent: [{ choices: [{ index: 0, message: { role: 'assistant', content: 'Fine.' }, finish_reason: 'stop' }] }],
    is: { text: 'Fine.' },
  },
  {
    name: 'a call in a field that nobody defined',
    sent: [piece({ content: 'Writing two. [Done]', tool_call: { name: 'shell', args: two } }, 'stop')],
    is: { fault: 'malformed', says: /tool_call/, hint: 'call' },
  },
  ...['', 'same'].map(
    (id): Quirk => ({
      name: `two parallel calls with index 0 and ${id ? 'one id' : 'no id'}`,
      sent: [
        piece({ tool_calls: [{ index: 0, id, type: 'function', function: { name: 'shell', arguments: TWO } }] }),
        piece(
          { tool_calls: [{ index: 0, id, type: 'function', function: { name: 'shell', arguments: THREE } }] },
          'tool_calls',
        ),
      ],
      is: {
        calls: [
          ['shell', two],
          ['shell', three],
        ],
      },
    }),
  ),
  {
    name: 'arguments of two calls in one',
    sent: [
      piece({ tool_calls: [{ index: 0, id: 'a', function: { name: 'shell', arguments: TWO + THREE } }] }, 'tool_calls'),
    ],
    is: {
      calls: [
        ['shell', two],
        ['shell', three],
      ],
    },
  },
  {
    name: 'an empty object before the arguments',
    sent: [
      piece({ tool_calls: [{ index: 0, id: 'a', function: { name: 'shell', arguments: '{}' } }] }),
      piece({ tool_calls: [{ index: 0, function: { arguments: TWO } }] }, 'tool_calls'),
    ],
    is: { calls: [['shell', two]] },
  },
  ...['functions.shell', 'functions.shell:0', 'shell<|channel|>commentary', 'tools.Shell'].map(
    (name): Quirk => ({
      name: `the name ${name}`,
      sent: [piece({ tool_calls: [{ index: 0, id: 'a', function: { name, arguments: TWO } }] }, 'tool_calls')],
      is: { calls: [['shell', two]] },
    }),
  ),
  {
    name: 'a name that is not on offer',
    sent: [
      piece(
        { tool_calls: [{ index: 0, id: 'a', function: { name: 'functions.bash', arguments: TWO } }] },
        'tool_calls',
      ),
    ],
    is: { calls: [['functions.bash', two]] },
  },
];

const refused = (status: number, error: object): Quirk['sent'] => ({ status, body: JSON.stringify({ error }) });
const inStream = (error: object): Quirk['sent'] => [piece({ content: 'Hm' }), { error }];

/** A request that is too long, in the words of the endpoint, and the window that they state. */
const tooLong: Quirk[] = [
  [
    400,
    "This model's maximum context length is 8192 tokens. However, you requested 9000 tokens (8000 in the messages, 1000 in the completion).",
    8192,
  ],
  [400, 'prompt is too long: 213462 tokens > 200000 maximum', 200_000],
  [400, 'The input token count (1200000) exceeds the maximum number of tokens allowed (1048576).', 1_048_576],
  [400, "This model's maximum prompt length is 131072 but the request contains 140000 tokens.", 131_072],
  [400, 'Invalid request: Your request exceeded model token limit: 131072 (requested: 140000)', 131_072],
  [400, '<400> InternalError.Algo.InvalidParameter: Range of input length should be [1, 129024]', 129_024],
  [400, 'prompt token count of 140000 exceeds the limit of 128000', 128_000],
  [
    413,
    'Request too large for model `x` on tokens per minute (TPM): Limit 8000, Requested 8500, please reduce your message size and try again.',
    8000,
  ],
  [
    429,
    'Request too large for gpt-4o on tokens per min (TPM): Limit 30000, Requested 35000. The input or output tokens must be reduced.',
    30_000,
  ],
  [413, 'Payload Too Large', undefined],
  [400, 'Input is too long for requested model.', undefined],
  [400, "The input (140000 tokens) is longer than the model's context length (131072 tokens).", 131_072],
  [400, 'tokens to keep from the initial prompt is greater than the context length', undefined],
  [400, 'Prompt contains 65536 tokens, too large for model with 32768 maximum context length', 32_768],
  [400, 'invalid params, context window exceeds limit', undefined],
  [
    422,
    'Input validation error: `inputs` tokens + `max_new_tokens` must be <= 4096. Given: 5000 `inputs` tokens and 512 `max_new_tokens`',
    4096,
  ],
  [400, 'Please reduce the length of the messages or completion.', undefined],
  [400, 'the request exceeds the available context size, try increasing it', undefined],
].map(([status, message, window]) => ({
  name: `too long: ${status} ${message}`,
  sent: refused(Number(status), { message }),
  is: { fault: 'too_long', ...(typeof window === 'number' && { window }) },
}));

const faults: Quirk[] = [
  {
    name: 'an overload in a stream',
    sent: inStream({ message: 'Rate limit exceeded: free-models-per-min.', code: 429 }),
    is: { fault: 'overloaded' },
  },
  { name: 'a server error in a stream', sent: inStream({ message: 'gone', code: 502 }), is: { fault: 'unreachable' } },
  {
    name: 'a type in a stream',
    sent: inStream({ type: 'overloaded_error', message: 'x' }),
    is: { fault: 'overloaded' },
  },
  { name: 'a wrong key in a stream', sent: inStream({ message: 'no', code: 401 }), is: { fault: 'rejected' } },
  {
    name: 'a length in a stream',
    sent: inStream({ message: "This model's maximum context length is 8192 tokens.", code: 400 }),
    is: { fault: 'too_long', window: 8192 },
  },
  {
    name: 'Groq could not read a call',
    sent: refused(400, {
      message: "Failed to call a function. Please adjust your prompt. See 'failed_generation' for more details.",
      ...{ type: 'invalid_request_error', code: 'tool_use_failed', failed_generation: '<function=shell>{}</function>' },
    }),
    is: { fault: 'malformed', hint: 'call' },
  },
  {
    name: 'Ollama could not read a call',
    sent: refused(500, {
      message: 'error parsing tool call: raw=\'{"command":"ls}\', err=unexpected end of JSON input',
    }),
    is: { fault: 'malformed', hint: 'call', says: /could not read the call/ },
  },
  {
    name: 'an error with status 200',
    sent: { status: 200, body: '{"code":500,"msg":"404 NOT_FOUND","success":false}' },
    is: { fault: 'unreachable', says: /404 NOT_FOUND/ },
  },
  {
    name: 'an error in a stream that is not called one',
    sent: [{ object: 'error', message: 'The model `x` does not exist.', type: 'NotFoundError', code: 404 }],
    is: { fault: 'rejected', says: /The model `x` does not exist/ },
  },
  {
    name: 'an empty account, as MiniMax says it',
    sent: {
      status: 200,
      body: '{"id":"","choices":null,"base_resp":{"status_code":1008,"status_msg":"insufficient balance"}}',
    },
    is: { fault: 'rejected', says: /insufficient balance/ },
  },
  {
    name: "a provider's reason behind a gateway",
    sent: refused(400, {
      ...{ message: 'Provider returned error', code: 400 },
      metadata: { raw: '{"error":{"message":"messages with role tool must have a tool_call_id"}}', provider_name: 'X' },
    }),
    is: { fault: 'rejected', says: /Provider returned error \(X: messages with role tool must have a tool_call_id\)/ },
  },
  {
    name: "a provider's overload behind a gateway",
    sent: refused(400, { message: 'Provider returned error', metadata: { raw: '{"error":{"code":429}}' } }),
    is: { fault: 'overloaded' },
  },
  {
    name: 'a model without tools: the advice is about tools',
    sent: refused(404, { message: 'No endpoints found that support tool use. Try disabling "browser".', code: 404 }),
    is: { fault: 'rejected', says: /browser"\. Choose a model that calls tools/ },
  },
  {
    name: 'a firewall in between: no advice about the key',
    sent: { status: 403, body: '<!DOCTYPE html><title>Attention Required! | Cloudflare</title>', type: 'text/html' },
    is: { fault: 'rejected', says: /a web page\. Something before the endpoint/ },
  },
  {
    name: "a key that LiteLLM's proxy does not know",
    sent: refused(400, { message: 'No connected db.', type: 'no_db_connection', code: '400' }),
    is: { fault: 'rejected', says: /No key was sent[.:]|The key that was sent/ },
  },
  {
    name: 'too little credit for the length of an answer',
    sent: refused(402, { message: 'This request requires more credits, or fewer max_tokens.', code: 402 }),
    is: { fault: 'rejected', says: /model\.max_tokens/ },
  },
  {
    name: 'a limit of the answer is no limit of the request',
    sent: refused(400, { message: 'max_tokens: 65536 > 8192, which is the maximum allowed number of output tokens' }),
    is: { fault: 'rejected' },
  },
  {
    name: 'all tokens went into reasoning',
    sent: [piece({ reasoning_content: 'Hm' }), piece({}, 'length')],
    is: { fault: 'malformed', says: /all its tokens went into reasoning/ },
  },
];

const stream = `data: ${JSON.stringify(piece({ content: 'Fine.' }, 'stop'))}\n\ndata: [DONE]\n\n`;
const forms: Quirk[] = [
  ...['application/json', 'text/plain', 'application/octet-stream', 'text/html'].map(
    (type): Quirk => ({
      name: `a stream that is called ${type}`,
      sent: { status: 200, body: stream, type },
      is: { text: 'Fine.' },
    }),
  ),
  {
    name: 'plain JSON that is called a stream',
    sent: {
      ...{ status: 200, type: 'text/event-stream' },
      body: `\n ${JSON.stringify({ choices: [{ message: { role: 'assistant', content: 'Fine.' } }] })}`,
    },
    is: { text: 'Fine.' },
  },
];

const hidden: Quirk[] = [
  ...[
    '<thought>[Done] Hm.</thought>Paris.',
    '<think>Hm</think>\n\nParis.',
    '<reasoning>Hm</reasoning>Paris.',
    '◁think▷Hm◁/think▷Paris.',
    '<|START_THINKING|>Hm<|END_THINKING|>Paris.',
    '<|channel|>analysis<|message|>Hm [Done]<|end|><|start|>assistant<|channel|>final<|message|>Paris.<|return|>',
    '<|start|>assistant<|channel|>final<|message|>Paris.<|end|>',
    'Paris.<|im_end|>',
    'Paris.<|eot_id|>',
    'Paris.</s>',
    'Paris.<end_of_turn>\n<start_of_turn>user\nAnd Rome?',
    '<|im_start|>assistant\nParis.<|im_end|>\n<|im_start|>user\nThanks<|im_end|>',
  ].map((sent) => ({ name: `marks of a template: ${sent}`, sent, is: { text: 'Paris.' } })),
  ...['<html>Paris</html>', '[Done] Paris', '<b', '[1] Paris', '<thinkpad> is a laptop'].map((sent) => ({
    name: `no marks of a template: ${sent}`,
    sent,
    is: { text: sent },
  })),
];

const endless: Quirk[] = [
  {
    name: 'a long table is no repetition',
    sent: Array.from({ length: 100 }, (_, n) =>
      piece({ content: `| ${n} | ${'-'.repeat(200)} |\n` }, n === 99 ? 'stop' : null),
    ),
    is: { text: Array.from({ length: 100 }, (_, n) => `| ${n} | ${'-'.repeat(200)} |\n`).join('') },
  },
];

export const QUIRKS: readonly Quirk[] = [
  ...[...asText, ...moreText, ...finishes, ...calls],
  ...[...tooLong, ...faults, ...forms, ...hidden, ...endless],
];
