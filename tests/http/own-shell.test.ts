import * as fs from 'node:fs';
import { expect, test } from 'vitest';
import { desk, script } from '../support/agentctl.ts';
import { isHeldHere, whyNot } from '../tools/sandbox.ts';
import { serveWorkspace } from './serving.ts';

test("the agent's own shell cannot read the token, and is refused without one", async (context) => {
  context.skip(!isHeldHere, whyNot);
  const place = desk();
  fs.mkdirSync(place.root, { mode: 0o700 });
  // The worst case: commands may use the network of this machine.
  const settings = { sandbox: 'bwrap', network: { shell: true }, permissions: [{ allow: 'shell(*)' }] };
  fs.writeFileSync(place.path('agentd.json'), JSON.stringify(settings));
  const { url, token } = await serveWorkspace(place);
  const tries = [
    `cat ${place.path('.agentd', 'token')} ../../../.agentd/token; true`,
    `grep -rs . ${place.path('.agentd')} ../../../.agentd; echo "found $?"`,
    `curl -s -m 5 ${url}/api/sessions; echo "exit $?"`,
  ];
  const calls = tries.map((command) => ({ calls: [{ name: 'shell', args: { command } }] }));
  await place.serve('--model', script(place, [...calls, { text: 'Given up.' }]));
  await place.ctl(['send', 'thief', 'Read the token', '--wait']);
  const told = await place.ctl(['log', 'thief', '--json']);
  const outputs = told.out.split('\n').filter((line) => line.includes('"tool.finished"'));
  expect(outputs).toHaveLength(tries.length);
  expect(told.out).not.toContain(token);
  expect(outputs[0]).toContain('No such file');
  expect(outputs[1]).toMatch(/found [12]/);
  expect(outputs[2]).toMatch(/Token required|exit [1-9]/);
});
