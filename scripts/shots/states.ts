import { mkdirSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';

type Call = { name: string; args: object };
/** `text` and `calls` of an answer; 'hold': none comes; 'fail': the endpoint fails. */
type Answer = { text?: string; calls?: Call[] } | 'hold' | 'fail';

/** A session in one of the states that people meet: its task, what its model answers, and what is sent later. */
type PreparedSession = {
  name: string;
  task: string;
  answers: Answer[];
  /** The most model calls. */
  most?: number;
  later?: string;
  /** Written as its settings. */
  settings?: string;
  width: 390 | 1280;
};

const sh = (command: string): Call => ({ name: 'shell', args: { command } });
const steps = (...all: string[]) => all.map((one) => `[Step] ${one}`).join('\n');
const RECEIPTS = [
  ...['Collect the receipts of the quarter', 'Read the numbers from each receipt'],
  ...['Check the totals against the bank statement', 'List what does not match and why'],
  ...['Ask the two suppliers for the missing invoices', 'Write the summary for the accountant'],
  ...['Make a chart of the costs by month', 'Put everything into one folder', 'Send the summary'],
];

export const PREPARED: readonly PreparedSession[] = [
  {
    name: 'q3-receipts',
    task: 'Put the receipts of the third quarter in order and write a summary for the accountant',
    width: 1280,
    answers: [
      {
        text: `I will go through the receipts one by one.\n\n${steps(...RECEIPTS)}`,
        calls: [
          sh('mkdir -p receipts && for i in 1 2 3 4; do echo "$i: 12$i.40 EUR" > receipts/$i.txt; done; ls receipts'),
        ],
      },
      {
        text: 'There are four receipts in `receipts/`. [Done]\n\nNow the numbers.',
        calls: [
          sh('cat receipts/*.txt | sort | tee numbers.txt'),
          {
            name: 'write_file',
            args: { path: 'totals.md', content: '| receipt | EUR |\n| --- | ---: |\n| 1 | 121.40 |\n' },
          },
        ],
      },
      {
        text: 'Read all of them:\n\n| receipt | EUR |\n| --- | ---: |\n| 1 | 121.40 |\n| 2 | 122.40 |\n| 3 | 123.40 |\n| 4 | 124.40 |\n\nThe total is **491.60 EUR**. [Done]\n\nNow the bank statement.',
        calls: [sh('sleep 100 && echo compared')],
      },
    ],
  },
  {
    name: 'rates',
    task: "Convert the totals into dollars with today's rates",
    width: 390,
    answers: [
      {
        text: `${steps('Fetch the exchange rates', 'Convert the totals')}\n\nI need the rates of today.`,
        calls: [sh('echo 491.60')],
      },
      { text: 'Now the rates.', calls: [{ name: 'web_fetch', args: { url: 'https://rates.example/eur.json' } }] },
    ],
  },
  {
    name: 'report-format',
    task: 'Write the report of the quarter',
    width: 390,
    answers: [
      {
        text: steps('Choose a format', 'Write the report'),
        calls: [
          {
            name: 'ask_user',
            args: {
              question: 'Which **format** should the report have? The accountant usually takes a spreadsheet.',
              choices: ['Spreadsheet', 'PDF', 'Plain text'],
            },
          },
        ],
      },
    ],
  },
  {
    name: 'haiku',
    task: 'Write a haiku about autumn',
    width: 1280,
    answers: [
      {
        text: steps('Write the haiku', 'Count the syllables'),
        calls: [sh('printf "autumn moonlight\\na worm digs silently\\ninto the chestnut\\n" > haiku.txt')],
      },
      { text: 'The haiku is in `haiku.txt`. [Done]', calls: [sh('wc -w haiku.txt')] },
      {
        text: 'It has 5, 6 and 5 syllables:\n\n```\nautumn moonlight\na worm digs silently\ninto the chestnut\n```\n\n[Done]',
      },
    ],
  },
  {
    name: 'site',
    task: 'Build and publish the site of the club',
    width: 1280,
    answers: [
      { text: steps('Build the site', 'Publish it'), calls: [sh('echo built > site.html')] },
      { text: 'Built. [Done]', calls: [sh('echo "refused: no such host" >&2; exit 3')] },
      { text: '[Failed] The server refused the upload: no such host.' },
      { text: '[Failed] There is no server to publish it to.' },
      { text: '[Failed] There is no server to publish it to.' },
    ],
  },
  {
    name: 'survey',
    task: 'Read the 40 answers of the survey and group them',
    width: 390,
    most: 2,
    answers: [
      { text: steps('Read the answers', 'Group them', 'Write a page'), calls: [sh('seq 40 > answers.txt')] },
      { text: 'Read 40 answers. [Done]', calls: [sh('head -20 answers.txt > first.txt')] },
    ],
  },
  {
    name: 'invoices',
    task: 'Fetch the invoices of the month from the mailbox',
    width: 390,
    answers: [
      { text: steps('Open the mailbox', 'Save the invoices'), calls: [sh('ls')] },
      { text: '[Blocked] There is no password for the mailbox.' },
      { text: '[Blocked] There is no password for the mailbox.' },
    ],
  },
  {
    name: 'backup',
    task: 'Copy the photos of 2025 to the other disk',
    width: 390,
    later: '/stop',
    answers: [{ text: steps('Copy the photos', 'Compare the copies'), calls: [sh('sleep 100')] }, 'hold'],
  },
  {
    name: 'news',
    task: 'Sum up the news about heat pumps',
    width: 1280,
    answers: [
      { text: steps('Search', 'Sum up'), calls: [sh('echo heat pumps > query.txt')] },
      'fail',
      'fail',
      'fail',
      'fail',
    ],
  },
  {
    name: 'minutes',
    task: 'Write the minutes of the meeting of Monday',
    width: 390,
    later: 'Leave out the part about the budget, please.',
    answers: [{ text: steps('Read the notes', 'Write the minutes'), calls: [sh('sleep 100')] }, 'hold'],
  },
  {
    name: 'ledger',
    task: 'Check the ledger',
    width: 1280,
    settings: '{ "mode": "sideways" }',
    answers: [{ text: 'All of it adds up.' }],
  },
  {
    name: 'translation',
    task: 'Translate the manual into French',
    width: 1280,
    later: '/cancel',
    answers: [{ text: steps('Translate chapter 1', 'Translate chapter 2'), calls: [sh('sleep 100')] }, 'hold'],
  },
];

/** An endpoint whose model knows the prepared sessions by their tasks. */
export async function startPreparedModel(): Promise<{ url: string; close(): void }> {
  const server = createServer(async (request, response): Promise<void> => {
    let body = '';
    for await (const piece of request) body += piece;
    response.setHeader('content-type', 'application/json');
    if (request.method === 'GET') return void response.end('{"object":"list","data":[]}');
    const { messages, stream } = JSON.parse(body) as { messages: Array<{ role: string }>; stream?: boolean };
    const session = PREPARED.find(({ task }) => body.includes(JSON.stringify(task).slice(1, -1)));
    const turn = messages.filter(({ role }) => role === 'assistant').length;
    const answer = session?.answers[turn] ?? 'hold';
    if (answer === 'hold') return;
    if (answer === 'fail') {
      response.statusCode = 503;
      return void response.end('{"error":{"message":"The model is overloaded."}}');
    }
    const calls = (answer.calls ?? []).map(({ name, args }, index) => ({
      ...{ index, id: `call_${turn}_${index}`, type: 'function' },
      function: { name, arguments: JSON.stringify(args) },
    }));
    const message = { role: 'assistant', content: answer.text ?? '', ...(calls.length > 0 && { tool_calls: calls }) };
    const usage = { prompt_tokens: 900, completion_tokens: 60, total_tokens: 960 };
    const reason = calls.length > 0 ? 'tool_calls' : 'stop';
    if (!stream)
      return void response.end(
        JSON.stringify({ id: 'x', choices: [{ index: 0, message, finish_reason: reason }], usage }),
      );
    response.setHeader('content-type', 'text/event-stream');
    const chunk = (delta: object, finish: string | null) =>
      `data: ${JSON.stringify({ id: 'x', choices: [{ index: 0, delta, finish_reason: finish }], usage: finish ? usage : null })}\n\n`;
    response.end(`${chunk(message, null)}${chunk({}, reason)}data: [DONE]\n\n`);
  });
  await new Promise<void>((listening) => server.listen(0, '127.0.0.1', listening));
  const { port } = server.address() as AddressInfo;
  return {
    url: `http://127.0.0.1:${port}/v1`,
    close() {
      server.closeAllConnections();
      server.close();
    },
  };
}

/** Drops a message, as `cp` would. */
export function drop(workspace: string, session: string, name: string, content: object): void {
  const inbox = join(workspace, '.sessions', session, 'inbox');
  mkdirSync(inbox, { recursive: true, mode: 0o700 });
  writeFileSync(join(inbox, name), JSON.stringify(content));
}
