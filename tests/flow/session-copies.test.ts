import * as fs from 'node:fs';
import { join } from 'node:path';
import { pack } from 'tar-stream';
import { expect, test } from 'vitest';
import { sha256 } from '../../src/base/sha256.ts';
import { type Setup, served, setup } from '../support/agentctl.ts';
import { until } from '../support/daemon.ts';

const RUNBOOK = [
  '1. Write: `echo one > report.md; ln -s report.md link; mkdir -p a/b; echo x > a/b/deep; chmod 755 a/b/deep`',
  '2. Change: `echo two > report.md`',
  '3. Look: `cat report.md`',
].join('\n');

async function worked(): Promise<Setup> {
  const at = await served();
  expect((await at.here(['send', 'demo', RUNBOOK, '--wait'])).code).toBe(0);
  return at;
}

const read = (at: Setup, session: string, path: string): string =>
  fs.readFileSync(join(at.root, '.sessions', session, 'work', path), 'utf8');

test('a fork has the files and the plan of that moment, is paused, and goes on by itself without answering again', async () => {
  const at = await worked();
  const made = await at.here(['fork', 'demo', 'step_1', 'other', '--json']);
  expect(JSON.parse(made.out)).toMatchObject({ name: 'other', checkpoint: 1 });
  expect([read(at, 'other', 'report.md'), read(at, 'demo', 'report.md')]).toEqual(['one\n', 'two\n']);
  expect(JSON.parse((await at.here(['show', 'other', '--json'])).out)).toMatchObject({
    standing: 'paused',
    plan: { steps: [{ status: 'completed' }, { status: 'pending' }, { status: 'pending' }] },
    unanswered: [],
  });
  expect(fs.readdirSync(at.path('.sessions/other/outbox')).filter((name) => name.endsWith('.md'))).toEqual([]);
  expect((await at.here(['continue', 'other', '--wait'])).code).toBe(0);
  expect(read(at, 'other', 'report.md')).toBe('two\n');
  expect((await at.here(['diff', 'other', 'step_2'])).out).toContain('~ report.md');
  expect((await at.here(['fork', 'demo', 'step_1', 'other'])).err).toContain('other');
  expect((await at.here(['fork', 'demo', '77', 'third'])).err).toContain('step_1');
  expect(fs.readdirSync(at.path('.sessions')).sort()).toEqual(['demo', 'other']);
});

test('a running session can be forked, and the copy does not run', async () => {
  const at = await served();
  const gate = join(at.root, 'gate');
  const wait = `until test -e ${gate}; do sleep 0.05; done`;
  await at.here(['send', 'demo', `1. Write: \`echo a > a\`\n2. Wait: \`${wait}\`\n3. End: \`echo b > b\``]);
  const events = at.path('.sessions/demo/events.jsonl');
  await at.has('.sessions/demo/checkpoints/1.json');
  await until(() => fs.readFileSync(events, 'utf8').includes('"checkpoint":1,'), 'the checkpoint of step_1');
  expect((await at.here(['fork', 'demo', '1', 'other'])).code).toBe(0);
  fs.writeFileSync(gate, '');
  await at.replied('demo');
  expect(fs.readdirSync(at.path('.sessions/other/work'))).toEqual(['a']);
  expect(JSON.parse((await at.here(['show', 'other', '--json'])).out).standing).toBe('paused');
});

test('a session goes to another workspace in one file, with its files, its checkpoints and its plan', async () => {
  const at = await worked();
  fs.writeFileSync(at.path('.sessions/demo/session.json'), '{"title": "Brought along"}');
  fs.symlinkSync('/etc/passwd', at.path('.sessions/demo/work/outside'));
  fs.mkdirSync(at.path('.sessions/demo/work/repo/.git'), { recursive: true });
  fs.writeFileSync(at.path('.sessions/demo/work/repo/.git/HEAD'), 'ref');
  // As if it had come in while the export was made.
  fs.writeFileSync(at.path('.sessions/demo/done/9999-late.md'), 'later');
  const file = join(at.root, '..', 'demo.tar');
  const out = await at.here(['export', 'demo', '--output', file]);
  expect(out).toMatchObject({
    code: 0,
    err: expect.stringMatching(
      /^Left out: demo: done\/9999-late\.md .*\nLeft out: demo: work\/outside \(a link that leads out of work\/\)\n$/,
    ),
  });
  expect((await at.here(['export', 'demo', '--output', file])).err).toContain('exists already');
  expect((await at.here(['import', file])).err).toContain('Give the other one a name: --as NAME');
  const other = await served();
  expect((await other.here(['import', file])).err).toContain('demo has settings of its own');
  const files = (which: Setup) => fs.readdirSync(which.path('.sessions/demo/work'), { recursive: true }).sort();
  expect(files(other)).toEqual(files(at).filter((name) => name !== 'outside'));
  expect(fs.statSync(other.path('.sessions/demo/work/a/b/deep')).mode & 0o777).toBe(0o755);
  expect(fs.readlinkSync(other.path('.sessions/demo/work/link'))).toBe('report.md');
  expect((await other.here(['why', 'demo'])).out).toBe((await at.here(['why', 'demo'])).out);
  expect((await other.here(['restore', 'demo', 'step_1', 'report.md', '--yes'])).out).toContain('1 changed back');
  expect(read(other, 'demo', 'report.md')).toBe('one\n');
  expect((await other.here(['send', 'demo', '1. Again: `echo three > report.md`', '--wait'])).code).toBe(0);
  expect(read(other, 'demo', 'report.md')).toBe('three\n');
  expect((await at.here(['import', file, '--as', 'copy'])).code).toBe(0);
  expect(read(at, 'copy', 'a/b/deep')).toBe('x\n');
});

type Entry = { name: string; content?: string; type?: 'symlink' | 'fifo'; linkname?: string };

/** A tar with this header, or one that lists exactly these entries. */
async function tarOf(path: string, entries: Entry[], header?: object): Promise<string> {
  const tar = pack();
  const files = entries.map(({ name, content = '', type, linkname }) =>
    type === 'symlink'
      ? { path: name, kind: 'link', target: linkname }
      : { path: name, kind: 'file', mode: 0o600, size: content.length, sha256: sha256(content) },
  );
  const all = { format: 1, at: '2026-01-01T00:00:00.000Z', sessions: [{ name: 's', seq: 0 }], files, ...header };
  tar.entry({ name: 'agentd-export.json' }, JSON.stringify(all));
  for (const { name, content = '', type, linkname } of entries)
    tar.entry({ name, ...(type && { type }), ...(linkname && { linkname }) }, type ? '' : content);
  tar.finalize();
  const pieces: Uint8Array[] = [];
  for await (const piece of tar) if (piece instanceof Uint8Array) pieces.push(piece);
  fs.writeFileSync(path, Buffer.concat(pieces));
  return path;
}

test('a file that leads out, is damaged or is of a newer version is refused, and nothing of it stays', async () => {
  const at = setup();
  fs.mkdirSync(at.path('.sessions'), { recursive: true, mode: 0o700 });
  const file = join(at.root, '..', 'bad.tar');
  const said = async (entries: Entry[], header?: object) =>
    (await at.here(['import', await tarOf(file, entries, header)])).err;
  const good = { name: 's/work/a', content: 'a' };
  expect(await said([{ name: 's/../../evil', content: 'x' }])).toContain('".." or an empty part');
  expect(await said([{ name: '/etc/evil', content: 'x' }])).toContain('its path is absolute');
  expect(await said([{ name: 's/inbox/x', content: 'x' }])).toContain('it belongs to none of the sessions');
  for (const linkname of ['/etc/passwd', '../x', 'a/../../x', '../../x'])
    expect(await said([good, { name: 's/work/l', type: 'symlink', linkname }])).toContain('leads out of work/');
  expect(await said([{ name: 's/work/p', type: 'fifo' }])).toContain('is a fifo, expected a file');
  const wrong = { files: [{ path: 's/work/a', kind: 'file', mode: 0o600, size: 1, sha256: sha256('b') }] };
  expect(await said([good], wrong)).toContain('is damaged');
  expect(await said([good], { files: [] })).toContain('is not among the files');
  expect(await said([], wrong)).toContain('The file is incomplete: s/work/a');
  expect(await said([good], { format: 2 })).toContain('Update agentd');
  fs.writeFileSync(file, 'no tar at all');
  expect((await at.here(['import', file])).err).not.toBe('');
  const whole = fs.readFileSync(await tarOf(file, [{ name: 's/work/a', content: 'x'.repeat(5000) }]));
  fs.writeFileSync(file, whole.subarray(0, whole.length - 4000));
  expect((await at.here(['import', file])).code).toBe(1);
  expect(fs.readdirSync(at.path('.sessions'))).toEqual([]);
  expect(fs.existsSync(join(at.root, '..', 'evil'))).toBe(false);
});
