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

export const QUIRKS: readonly Quirk[] = [...asText, ...moreText, ...finishes, ...calls];
