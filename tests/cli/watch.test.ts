import { mkdirSync } from 'node:fs';
import { dirname } from 'node:path';
import { expect, test, vi } from 'vitest';
import { ended, opened, planned, pretendDaemon, received, record, rig, started } from '../client/rig.ts';
import { runHere } from '../support/agentctl-here.ts';
import { ground } from '../support/daemon.ts';
import { modelServer } from '../support/temporary.ts';

const END = ended('1.md', 'plan_1');
const RUN_ENDED = END.findIndex(({ type }) => type === 'run.ended');

test.each([
  ['runs', 0],
  ['has just ended', RUN_ENDED + 1],
])(
  'watch of a run that %s ends once its plan has ended too, so that a show after it says completed',
  async (_, from) => {
    const at = rig();
    const paths = at.session('demo');
    mkdirSync(paths.inbox, { recursive: true });
    mkdirSync(dirname(at.client.paths.owner), { recursive: true });
    pretendDaemon(at);
    const before = [opened, received('1.md'), started('1.md'), ...planned('plan_1', 'Count'), ...END.slice(0, from)];
    await record(paths, before);
    let isOver = false;
    const watching = runHere(['watch', 'demo', '--json', '--workspace', at.root]).finally(() => {
      isOver = true;
    });
    // Once it shows an event, it shows all that follow.
    const printed = vi.mocked(process.stdout.write).mock.calls;
    while (printed.length === 0 && !isOver)
      await record(paths, [{ type: 'mode.set', mode: 'linear', message: '1.md' }]);
    await record(paths, END.slice(from));
    const { code, out } = await watching;
    const last = out.trim().split('\n').at(-1) ?? '';
    expect([code, last]).toEqual([0, expect.stringContaining('"plan.ended"')]);
    expect((await at.client.show('demo')).session.plan?.status).toBe('completed');
  },
);

test('watch shows no word of a planner, and each answer begins a line of its own', async () => {
  const plan = '{"title": "T", "steps": [{"id": "a", "description": "Say hello"}]}';
  const server = await modelServer(({ index }) => ({
    text: [plan, 'hello [Done]', 'All done, summary.'][index] ?? 'No.',
  }));
  const on = ground();
  await on.serve(server.flags);
  on.sh('demo', `mkdir inbox && echo '{"text": "Do it", "options": {"mode": "plan-act"}}' > inbox/1.json`);
  const { out } = await runHere(['watch', 'demo', '--workspace', on.root]);
  expect(out).not.toContain('"steps"');
  expect(out).toMatch(/^hello$/m);
  expect(out).toMatch(/^All done, summary\.$/m);
});
