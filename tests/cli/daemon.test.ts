import { existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { expect, test } from 'vitest';
import { z } from 'zod';
import { script, served, setup } from '../support/agentctl.ts';
import { modelServer } from '../support/temporary.ts';
import { hasSandbox } from '../tools/sandbox.ts';

test('the daemon is started, looked at and stopped, and each says so when it is not as it must be', async () => {
  const { ctl, here, root } = setup();
  expect((await here(['status'])).code).toBe(3);
  expect((await here(['stop'])).code).toBe(3);
  expect(existsSync(root)).toBe(false);
  expect(await ctl(['start', '--model', 'runbook'])).toMatchObject({ code: 0, err: '' });
  const again = await here(['start', '--model', 'qwen3', '--base-url', 'http://127.0.0.1:9/v1']);
  expect(again).toMatchObject({ code: 3, err: expect.stringMatching(/already running: process \d+/) });
  expect(again.err).toMatch(/agentctl restart .*--model qwen3 --base-url '?http:\/\/127\.0\.0\.1:9\/v1/);
  const status = await ctl(['status', '--json']);
  expect(status.code).toBe(0);
  expect(JSON.parse(status.out)).toMatchObject({
    workspace: root,
    sessions: { total: 0 },
    daemon: { pid: expect.any(Number) },
  });
  expect(await ctl(['stop'])).toMatchObject({ code: 0, out: expect.stringContaining('has stopped') });
  expect((await here(['status'])).code).toBe(3);
});

test('restart keeps the flags of the daemon but those that are given, and starts one where none runs', async () => {
  const { ctl, here, root, path } = setup();
  const flags = (pid: number) => readFileSync(`/proc/${pid}/cmdline`, 'utf8').split('\0').slice(2, -1);
  const pid = async (): Promise<number> => JSON.parse((await here(['status', '--json'])).out).daemon.pid;
  expect(await ctl(['restart', '--model', 'runbook'])).toMatchObject({ code: 0, err: '' });
  const first = await pid();
  expect((await ctl(['doctor'])).out).toContain('runbook is configured');
  writeFileSync(path('agentd.json'), '{ "approvls": "safe" }');
  const broken = await ctl(['restart']);
  expect([broken.code, broken.err]).toEqual([1, expect.stringContaining('did you mean "approvals"?')]);
  expect([await pid(), broken.err]).toEqual([first, expect.stringContaining('The running daemon was not stopped')]);
  rmSync(path('agentd.json'));
  writeFileSync(path('other.json'), '{}');
  for (const [text, why] of [
    ['{ "mode": "sideways" }', 'mode'],
    [undefined, 'does not exist'],
  ] as const) {
    if (text !== undefined) writeFileSync(path('bad.json'), text);
    const refused = await ctl(['restart', '--config', path(text === undefined ? 'missing.json' : 'bad.json')]);
    expect(refused).toMatchObject({ code: 1, err: expect.stringMatching(`${why}.*\n.*was not stopped`) });
  }
  expect((await ctl(['restart', '--config', path('other.json')])).code).toBe(0);
  const second = await pid();
  expect(second).not.toBe(first);
  const kept = ['--workspace', root, '--config', path('other.json'), '--model', 'runbook', '--log-level', 'info'];
  expect(flags(second)).toEqual(kept);
  const failed = await ctl(['restart', '--model', 'scripted:/nowhere/script.json']);
  expect(failed).toMatchObject({ code: 1, err: expect.stringContaining('/nowhere/script.json cannot be read') });
});

test('start without flags starts the daemon as it was started before, and says what differs', async () => {
  const { ctl, here, path } = setup();
  const flags = (pid: number) => readFileSync(`/proc/${pid}/cmdline`, 'utf8').split('\0').slice(4, -1);
  const pid = async (): Promise<number> => JSON.parse((await here(['status', '--json'])).out).daemon.pid;
  const bare = await ctl(['start']);
  expect([bare.code, bare.err]).toEqual([
    0,
    expect.stringMatching(/^No model is configured.*agentctl restart .*--model NAME/),
  ]);
  await ctl(['restart', '--model', 'runbook']);
  await ctl(['stop']);
  const started = JSON.parse(readFileSync(path('.agentd/started.json'), 'utf8'));
  writeFileSync(path('.agentd/started.json'), JSON.stringify({ ...started, variables: ['OPENAI_API_KEY'] }));
  const second = await ctl(['start', '--log-level', 'warn']);
  expect(second.err).toContain('Set when it was started before, and not now: OPENAI_API_KEY.');
  expect(second.err).toContain('Starts as before, with --model runbook.');
  expect(flags(await pid())).toEqual(['--model', 'runbook', '--log-level', 'warn']);
  await ctl(['stop']);
  const other = await ctl(['start', '--model', 'scripted:/dev/null']);
  expect(other.err).toContain('It was started with other flags before: --model runbook');
  writeFileSync(path('.agentd/started.json'), '{ "args": ');
  expect(await ctl(['restart', '--model', 'runbook'])).toMatchObject({ code: 0, err: '' });
});

test('a script is looked for where the command is given, and --wait says when its model fails', async () => {
  const at = setup();
  script(at, [{ text: 'Hello.' }, { status: 503, text: 'busy', retry_after: 2 }, { text: 'Hello again.' }]);
  expect((await at.ctl(['start', '--model', 'scripted:script.json'])).code).toBe(0);
  expect((await at.here(['send', 'demo', 'hello', '--wait'])).out).toBe('Hello.\n');
  // Who waits is told why it takes long.
  const { out, err } = await at.here(['send', 'demo', 'hello?', '--wait']);
  expect(out).toBe('Hello again.\n');
  expect(err.match(/The model failed and is asked again: .*busy/g)).toHaveLength(1);
});

test('start with an invalid agentd.json starts the daemon, and says what is wrong and what waits', async () => {
  const { ctl, root, path } = setup();
  mkdirSync(root, { mode: 0o700 });
  writeFileSync(path('agentd.json'), '{ "approvls": "safe" }');
  const { code, out, err } = await ctl(['start', '--model', 'runbook']);
  expect([code, out]).toEqual([0, expect.stringContaining('The daemon is running')]);
  expect(err).toMatch(/did you mean "approvals"\?.*wait until it is fixed/s);
});

test('a daemon that ends at once tells why, and nothing is left running', async () => {
  const at = setup();
  const { code, err } = await at.ctl(['start', '--model', 'scripted:/nowhere/script.json']);
  expect(code).toBe(1);
  expect(err).toContain('/nowhere/script.json cannot be read');
  expect((await at.here(['status'])).code).toBe(3);
});

test('agentd prints READY and nothing else, and ends with 0 at SIGTERM', async () => {
  const at = setup();
  const { child, ended } = await at.serve('--model', 'runbook');
  child.kill('SIGTERM');
  expect(await ended).toMatchObject({ code: 0, out: `READY ${at.root}\n` });
});

test('agentd that is told twice to stop does not wait for the call in flight', async () => {
  const at = setup();
  const { child, ended } = await at.serve('--model', script(at, [{ text: 'Thinking', delay_ms: 60_000 }]));
  await at.here(['send', 'demo', 'think']);
  await at.has('.sessions/demo/live');
  child.kill('SIGTERM');
  await at.here(['status']);
  child.kill('SIGINT');
  expect((await ended).code).toBe(130);
});

test('a second agentd ends with 3 and names the first', async () => {
  const at = setup();
  const { child } = await at.serve('--model', 'runbook');
  await expect(at.serve('--model', 'runbook')).rejects.toThrow(
    new RegExp(`agentd ended \\(3\\): .*process ${child.pid} `),
  );
});

test('what is asked for while the daemon is down is done when it comes up', async () => {
  const at = setup();
  const answers = [
    { text: '[Step] Look\n[Step] Tell', calls: [{ name: 'list_files', args: {} }] },
    { text: '[Done] looked' },
    { text: '[Done] told' },
  ];
  const model = script(at, answers);
  await at.ctl(['start', '--model', model]);
  expect((await at.here(['send', 'demo', 'Look and tell', '--iterations', '1', '--wait'])).code).toBe(5);
  await at.here(['stop']);
  const asked = await at.here(['continue', 'demo', 'and be brief', '--iterations', '9', '--json']);
  expect(asked).toMatchObject({ code: 0, err: expect.stringContaining(`agentctl start --workspace ${at.root}`) });
  await at.ctl(['start', '--model', model]);
  expect((await at.here(['watch', 'demo'])).code).toBe(0);
  const sent: unknown = JSON.parse(asked.out);
  expect(sent).toMatchObject({ session: 'demo' });
  const { plan } = JSON.parse((await at.here(['show', 'demo', '--json'])).out);
  expect(plan).toMatchObject({ status: 'completed', steps: [{ status: 'completed' }, { status: 'completed' }] });
});

test('a session with a run on is neither archived, renamed, removed nor rebuilt', async () => {
  const at = await served([{ text: 'Thinking', delay_ms: 60_000 }]);
  await at.here(['send', 'demo', 'think']);
  await at.has('.sessions/demo/live');
  for (const words of [
    ['archive', 'demo'],
    ['rename', 'demo', 'other'],
    ['remove', 'demo', '--yes'],
  ]) {
    expect(await at.here(words)).toMatchObject({
      code: 3,
      err: expect.stringContaining(`agentctl stop-run --workspace ${at.root} demo --wait`),
    });
  }
  expect((await at.here(['rebuild', 'demo'])).code).toBe(3);
  expect((await at.here(['stop-run', 'demo', '--wait'])).code).toBe(0);
  expect((await at.here(['rename', 'demo', 'other'])).code).toBe(0);
  expect((await at.here(['archive', 'other'])).out).toContain('.archive/other');
  expect(existsSync(at.path('.archive/other/events.jsonl'))).toBe(true);
});

test('the log has one line an event, and its JSON is the event log byte for byte', async () => {
  const at = await served([{ text: 'Hello.\u001b[31m' }]);
  await at.here(['send', 'demo', 'hello', '--wait']);
  const record = readFileSync(at.path('.sessions/demo/events.jsonl'), 'utf8');
  const lines = (await at.here(['log', 'demo'])).out;
  expect((await at.here(['log', 'demo', '--json', '--from', '2'])).out).toContain(
    record.split('\n').slice(1, 6).join('\n'),
  );
  expect(lines.split('\n').length).toBeGreaterThanOrEqual(6);
  expect(lines).toContain('message.received');
  expect(lines).not.toContain('\u001b');
});

test('doctor finds a bad configuration, says that no sandbox is wanted, and ends with 1', async () => {
  const at = setup();
  await at.here(['send', 'demo', 'hello']);
  writeFileSync(at.path('agentd.json'), '{ "limit": 3, "sandbox": "none",\n "mode": "zigzag" }');
  const { code, out } = await at.here(['doctor', '--model', 'runbook', '--json']);
  expect(code).toBe(1);
  const findings: unknown = JSON.parse(out);
  expect(findings).toContainEqual({
    what: 'configuration',
    is: 'wrong',
    text: expect.stringMatching(/line 2, column \d+: mode/),
  });
  writeFileSync(at.path('agentd.json'), '{ "sandbox": "none" }');
  mkdirSync(at.path('.sessions/demo~step_1'));
  writeFileSync(at.path('.sessions/demo~step_1/session.json'), '{ "sandbox": ');
  const found: unknown = JSON.parse((await at.here(['doctor', '--model', 'runbook', '--json'])).out);
  expect(found).toContainEqual({ what: 'sandbox', is: 'note', text: expect.stringContaining('without a sandbox') });
  const ignored = /demo~step_1\/session\.json is ignored: child sessions use the settings of demo/;
  expect(found).toContainEqual({ what: 'settings', is: 'warning', text: expect.stringMatching(ignored) });
});

test.skipIf(hasSandbox)('doctor makes no workspace where there is none', async () => {
  const at = setup();
  expect((await at.here(['doctor', '--model', 'runbook'])).code).toBe(0);
  expect(existsSync(at.root)).toBe(false);
});

test.runIf(hasSandbox)(
  'doctor tries to get out of the sandbox, tells what became of each try, and makes no workspace',
  async () => {
    const at = setup();
    const { code, out } = await at.here(['doctor', '--model', 'runbook', '--json']);
    expect({ code, isMade: existsSync(at.root) }).toEqual({ code: 0, isMade: false });
    const findings = z.array(z.object({ what: z.string(), is: z.string(), text: z.string() })).parse(JSON.parse(out));
    expect(findings).toContainEqual({ what: 'sandbox', is: 'ok', text: 'commands are sandboxed' });
    const tries = findings.filter(({ what }) => what === 'escape');
    expect(tries.length).toBeGreaterThan(15);
    expect(tries.every(({ is, text }) => is === 'ok' && text.endsWith(': blocked'))).toBe(true);
  },
);

/** A workspace whose commands run without a sandbox, so that `doctor` does not try to get out of one. */
function unsandboxed() {
  const at = setup();
  mkdirSync(at.root, { mode: 0o700 });
  writeFileSync(at.path('agentd.json'), '{ "sandbox": "none" }');
  return at;
}

test('doctor lists the skills, and says why one is left out', async () => {
  const at = unsandboxed();
  const model = ['--model', 'runbook', '--json'];
  expect((await at.here(['doctor', ...model])).out).not.toContain('skills');
  await at.here(['send', 'demo', 'hello']);
  mkdirSync(at.path('skills/good'), { recursive: true });
  mkdirSync(at.path('skills/bad'));
  writeFileSync(at.path('skills/good/SKILL.md'), '---\nname: good\ndescription: Does well\n---\n');
  const findings: unknown = JSON.parse((await at.here(['doctor', ...model])).out);
  expect(findings).toContainEqual({ what: 'skills', is: 'ok', text: 'good' });
  expect(findings).toContainEqual({ what: 'skills', is: 'warning', text: expect.stringContaining('no SKILL.md') });
});

test('doctor says that no model is set, which is not wrong yet, and does not call one that is', async () => {
  const at = unsandboxed();
  const none = await at.ctl(['doctor', '--json']);
  expect([none.code, JSON.parse(none.out)]).toEqual([
    0,
    expect.arrayContaining([{ what: 'model', is: 'note', text: expect.stringContaining('none is set yet') }]),
  ]);
  expect((await at.here(['doctor', '--ask'])).code).toBe(1);
  const nameless = await at.ctl(['doctor', '--base-url', 'http://127.0.0.1:9/v1']);
  expect([nameless.code, nameless.out]).toEqual([1, expect.stringContaining('no model is named')]);
  const unreachable = await at.ctl(['doctor', '--base-url', 'http://127.0.0.1:9/v1', '--model', 'x']);
  expect([unreachable.code, unreachable.out]).toEqual([0, expect.stringContaining('not called')]);
});

test('doctor prints a line for each group that is well, every fault, and everything with --verbose', async () => {
  const at = unsandboxed();
  const linesOf = async (...words: string[]) =>
    (await at.here(['doctor', '--model', 'runbook', ...words])).out.split('\n');
  const quiet = await linesOf();
  expect(quiet.length).toBeLessThanOrEqual(10);
  expect(quiet).toContainEqual(expect.stringMatching(/^✓ machine +node, (?=.*\bdisk\b)(?=.*\block\b)/));
  expect(quiet).toContainEqual(expect.stringMatching(/^· environment +of this shell, /));
  expect(quiet).not.toContainEqual(expect.stringContaining(process.version));
  const all = await linesOf('--verbose');
  expect(all).toContainEqual(expect.stringContaining(process.version));
  mkdirSync(at.path('skills/bad'), { recursive: true });
  const broken = await linesOf();
  expect(broken).toContainEqual(expect.stringMatching(/^! skills .*no SKILL\.md/));
  expect(broken).toContainEqual(expect.stringMatching(/^✓ settings .*agentd\.json/));
});

test('doctor --ask says whether the model calls tools, since it could do nothing without', async () => {
  const at = unsandboxed();
  const server = await modelServer([
    { calls: [{ name: 'list_files', args: '{"path":"."}' }], model: 'm' },
    { text: 'ready', model: 'm' },
    { text: 'ready', model: 'm' },
    { text: 'ready', model: 'm' },
    { text: '<tool_call>\n{"name": "list_files", "arguments": {"path": "."}}\n</tool_call>', model: 'm' },
  ]);
  const modelFound = async () => {
    const { code, out } = await at.here(['doctor', '--ask', '--base-url', server.url, '--model', 'm', '--json']);
    const findings: Array<{ what: string }> = JSON.parse(out);
    return [code, findings.find(({ what }) => what === 'model')];
  };
  expect(await modelFound()).toEqual([0, { what: 'model', is: 'ok', text: 'm answers and calls tools' }]);
  const seen = server.requests[0]?.body.tools?.map((one) => one.function.name);
  expect(seen).toEqual(expect.arrayContaining(['plan', 'shell', 'more_tools', 'list_files']));
  const warning = (words: string) => [0, { what: 'model', is: 'warning', text: expect.stringContaining(words) }];
  expect(await modelFound()).toEqual(warning('did not call the tool it was asked to call. Does the server'));
  expect(await modelFound()).toEqual(warning('set "model": { "tool_calls": "text" }'));
  const { out } = await at.here(['doctor', '--verbose', '--base-url', server.url, '--model', 'm']);
  expect(out).toContain('learned (.agentd/endpoints.json): tools: text; streams');
});
