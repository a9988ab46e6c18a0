import { execFile, spawnSync } from 'node:child_process';
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { expect, test } from 'vitest';
import { everything } from '../support/all.ts';
import { type Ground, ground, statusOf, until } from '../support/daemon.ts';
import { modelServer } from '../support/temporary.ts';

const run = promisify(execFile);
/** Saves of each way, one right after the other; each adds a word of its own to what stands there. */
const SAVES = 20;
/** Between two iterations of the run. */
const PAUSE_MS = everything ? 5 : 20;

/**
 * A session whose run goes on, and with each iteration brings `plan.json` up to date, until `finish` is called; that
 * answers with the reply. Edits are made beside it with `person`, a line of shell in the session's folder.
 */
async function busy() {
  let open = true;
  const server = await modelServer(({ index }) => {
    if (index === 0) return { text: '[Step] Read it\n[Step] Write it\n[Step] Send it', calls: [write(index)] };
    // An iteration or more between two saves; as many as the machine can would take it from the editors.
    return open ? { text: `Page ${index}`, calls: [write(index)], delayMs: PAUSE_MS } : { text: '[Done]' };
  });
  const on = ground();
  on.config({ version: 1, limits: { iterations: 100_000, step_iterations: 100_000 } });
  await on.serve(server.flags);
  on.sh('demo', 'mkdir inbox && echo "write a report" > inbox/1.md');
  await until(() => (on.plan('demo')?.iteration_count ?? 0) > 2, 'a run that is busy with its plan');
  return {
    on,
    person: (line: string) => run('bash', ['-c', `set -e; ${line}`], { cwd: on.session('demo'), timeout: 20_000 }),
    async finish() {
      open = false;
      return on.file('demo', 'outbox/1.md');
    },
  };
}

const write = (index: number) => ({
  name: 'write_file',
  args: JSON.stringify({ path: 'pages.txt', content: `${index}` }),
});

/** Everything a save can be found in: the event log, the plan, and its earlier versions. */
function kept(on: Ground): string {
  const folder = on.session('demo');
  const history = join(folder, 'plans/history');
  const paths = ['events.jsonl', 'plan.json', ...readdirSync(history).map((name) => join('plans/history', name))];
  return paths.map((path) => readFileSync(join(folder, path), 'utf8')).join('\n');
}

const step2 = (on: Ground) => on.plan('demo')?.steps.find((step) => step.id === 'step_2');
const LAST = `token-${SAVES - 1}-`;
const words = Array.from({ length: SAVES }, (_, index) => `token-${index}-`);

/** Whether a program is there; a row without its program is skipped, and its name says why. */
const has = (program: string) => spawnSync('sh', ['-c', `command -v ${program}`]).status === 0;

/**
 * A change of the plan as a program that writes it to stdout. `MAX_WORD_LENGTH` is the save's own word. A reader can find the name
 * away for some microseconds; a person would look again, so do these.
 */
const CHANGE = has('jq')
  ? `until text=$(jq '.steps[1].notes += " WORD"' plan.json 2>/dev/null) && [ -n "$text" ]; do :; done`
  : `text=$(node -e 'const { readFileSync } = require("node:fs");
      const read = () => { try { return JSON.parse(readFileSync("plan.json", "utf8")); } catch { return read(); } };
      const plan = read(); plan.steps[1].notes = (plan.steps[1].notes ?? "") + " WORD"; console.log(JSON.stringify(plan, null, 2));')`;
/** For all that speak the language of `ed`. */
const DESCRIBE = String.raw`s/"description": "Write \([^"]*\)"/"description": "Write \1 WORD"/`;
/** Where the file changed since it was read vim asks whether to write all the same, also after `wq!`: yes. */
const vim = (how: string) =>
  `until vim -i NONE -Nu NONE -es -c '${how}' -c '%${DESCRIBE} | wq!' -c 'cq!' plan.json <<< yyyy; do :; done`;

/** vim's question has no answer that always comes in time without a terminal: its rows run with EDITORS=vim, by hand. */
const byHand = (needs: string) => needs === 'vim' && process.env['EDITORS'] !== 'vim';

const EDITORS = [
  { name: 'sed -i', needs: 'sed', line: `until sed -i '${DESCRIBE}' plan.json 2>/dev/null; do :; done` },
  { name: 'jq to another file and mv', needs: 'bash', line: `${CHANGE}; echo "$text" > tmp; mv tmp plan.json` },
  { name: 'truncate and write', needs: 'bash', line: `${CHANGE}; cat > plan.json <<< "$text"` },
  { name: 'vim, in place', needs: 'vim', line: vim('set backupcopy=yes') },
  { name: 'vim, by rename', needs: 'vim', line: vim('set backupcopy=no') },
  // From a file: ed ends at the first error then. From a pipe it would go on and write an empty plan where the name was away.
  {
    name: 'ed, in place',
    needs: 'ed',
    line: `printf '%s\\n' ',${DESCRIBE}' w q > .ed; until ed -s plan.json < .ed 2>/dev/null; do :; done`,
  },
];

for (const { name, needs, line } of EDITORS) {
  const fact = `saves with ${name} reach the plan while a run goes on, and none is lost`;
  const why = byHand(needs) ? 'it asks at a terminal; run with EDITORS=vim' : has(needs) ? '' : `no ${needs} here`;
  test.skipIf(why !== '')(why === '' ? fact : `${fact} (skipped: ${why})`, async () => {
    const { on, person, finish } = await busy();
    for (const word of words) await person(line.replaceAll('WORD', word));
    await until(() => JSON.stringify(step2(on) ?? '').includes(LAST), 'the last save in the plan');
    expect(statusOf(await finish())).toBe('done');
    expect(JSON.stringify(step2(on))).toContain(LAST);
    const found = kept(on);
    expect(words.filter((word) => !found.includes(word))).toEqual([]);
    expect(on.plan('demo')?.steps.map((step) => step.id)).toEqual(['step_1', 'step_2', 'step_3']);
  });
}

/**
 * Saves 50 times, every 20 ms, by rename or in place, each time with one more word in the notes of step 2: in the plan as it
 * stands then, or in the one that was there at first, as an editor that never reads its file again.
 */
const HASTY = `
  const fs = require('node:fs');
  const [how, reads] = process.argv.slice(1);
  const read = () => { try { return JSON.parse(fs.readFileSync('plan.json', 'utf8')); } catch { return read(); } };
  let plan = read();
  (async () => {
    for (let n = 0; n < 50; n++) {
      if (reads === 'again') plan = read();
      plan.steps[1].notes = (plan.steps[1].notes ?? '') + ' token-' + n + '-';
      const text = JSON.stringify(plan, null, 2);
      if (how === 'rename') {
        fs.writeFileSync('.plan.editor', text);
        fs.renameSync('.plan.editor', 'plan.json');
      } else fs.writeFileSync('plan.json', text);
      await new Promise((done) => setTimeout(done, 20));
    }
  })();
`;

for (const how of ['rename', 'in place']) {
  for (const reads of ['again', 'once']) {
    test(`of fifty saves at 20 ms (${how}, the plan read ${reads}) none is lost, and the last is the plan`, async () => {
      const { on, finish } = await busy();
      await run(process.execPath, ['-e', HASTY, how, reads], { cwd: on.session('demo'), timeout: 20_000 });
      await until(() => step2(on)?.notes?.includes('token-49-'), 'the last save in the plan');
      expect(statusOf(await finish())).toBe('done');
      expect(step2(on)?.notes).toContain('token-49-');
      const found = kept(on);
      expect(Array.from({ length: 50 }, (_, n) => `token-${n}-`).filter((word) => !found.includes(word))).toEqual([]);
      expect(on.plan('demo')).toMatchObject({ status: 'completed' });
    });
  }
}

const HALF = [
  {
    name: 'by rename',
    line: 'until head -c 300 plan.json > half 2>/dev/null && [ -s half ]; do :; done; mv half plan.json',
  },
  {
    name: 'in place',
    line: 'until text=$(head -c 300 plan.json 2>/dev/null) && [ -n "$text" ]; do :; done; printf %s "$text" > plan.json',
  },
];

for (const { name, line } of HALF) {
  test(`half a plan, saved ${name}, stays byte for byte while the run goes on; the reply names line and column`, async () => {
    const { on, person, finish } = await busy();
    await person(line);
    const path = join(on.session('demo'), 'plan.json');
    const half = readFileSync(path, 'utf8');
    expect(half).toHaveLength(300);
    await until(() => on.events('demo').some((event) => event.type === 'plan.edited'), 'the complaint');
    const answers = () => on.events('demo').filter((event) => event.type === 'model.answered').length;
    const before = answers();
    await until(() => {
      expect(readFileSync(path, 'utf8')).toBe(half);
      return answers() > before + 20;
    }, 'twenty more answers');
    const reply = await finish();
    expect(statusOf(reply)).toBe('done');
    const lines = half.split('\n');
    expect(reply).toContain(`line ${lines.length}, column ${(lines.at(-1)?.length ?? 0) + 1}`);
    expect(readFileSync(path, 'utf8')).toBe(half);
  });
}

test('half a plan that is saved whole again counts from then on', async () => {
  const { on, person, finish } = await busy();
  await person(`${CHANGE.replace('WORD', 'repaired')}; head -c 300 <<< "$text" > plan.json; echo "$text" > ../whole`);
  await until(() => on.events('demo').some((event) => event.type === 'plan.edited'), 'the complaint');
  await person('mv ../whole plan.json');
  await until(() => step2(on)?.notes?.includes('repaired'), 'the repaired save in the plan');
  const reply = await finish();
  expect(reply).not.toContain('column');
  expect(step2(on)?.notes).toContain('repaired');
});
