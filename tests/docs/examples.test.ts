import { execFile, spawnSync } from 'node:child_process';
import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { expect, test } from 'vitest';
import { ground } from '../support/daemon.ts';

const ANSWER = 'There are 7 words.\n\nCounted by script: ✓ 七';
const EXAMPLES = [
  { file: 'send.sh', fence: 'sh', run: 'sh', args: [] },
  { file: 'send.py', fence: 'python', run: 'python3', args: [] },
  { file: 'send.ts', fence: 'ts', run: process.execPath, args: ['--import', 'tsx'] },
];

test.each(EXAMPLES)('docs/protocol.md shows $file as it is', ({ file, fence }) => {
  const [, shown] = readFileSync('docs/protocol.md', 'utf8').split(`<!-- ${file} -->\n`);
  const example = readFileSync(join('docs/examples', file), 'utf8');
  expect(shown?.split(`<!-- /${file} -->`)[0]).toBe(`\`\`\`${fence}\n${example}\`\`\`\n`);
});

test.for(EXAMPLES)(
  '$file sends a message, prints its reply and moves that to outbox/read/',
  async (example, { skip }) => {
    const { file, run, args } = example;
    skip(run === 'python3' && spawnSync(run, ['--version']).error !== undefined, 'there is no python3 here');
    const on = ground();
    const script = join(on.root, 'answers.json');
    writeFileSync(script, JSON.stringify([{ text: ANSWER }]));
    await on.start(['--model', `scripted:${script}`]);

    const session = join(on.root, '.sessions', 'demo');
    const text = 'How many words are in "notes"? – 多少';
    const { stdout } = await promisify(execFile)(run, [...args, join('docs/examples', file), session, text]);
    expect(stdout).toBe(`${ANSWER}\n`);
    const files = (folder: string) => readdirSync(join(session, folder)).filter((name) => !name.startsWith('.'));
    expect([files('inbox'), readdirSync(join(session, 'inbox/.tmp'))]).toEqual([[], []]);
    expect([files('outbox'), files('outbox/read').length, files('done').length]).toEqual([['read'], 1, 1]);
    expect(readFileSync(join(session, 'events.jsonl'), 'utf8')).toContain(JSON.stringify(text).slice(1, -1));
  },
);

test('none of the examples minds that the daemon took its staging name away first', () => {
  const takesAway = {
    'send.sh': 'rm -f ',
    'send.py': 'unlink(missing_ok=True)',
    'send.ts': 'rm(staged, { force: true })',
  };
  for (const [file, words] of Object.entries(takesAway))
    expect(readFileSync(join('docs/examples', file), 'utf8')).toContain(words);
});
