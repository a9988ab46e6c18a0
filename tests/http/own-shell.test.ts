import * as fs from 'node:fs';
import { createServer } from 'node:http';
import { expect, test } from 'vitest';
import { type Setup, script, setup } from '../support/agentctl.ts';
import { listen } from '../support/temporary.ts';
import { browserTest } from '../tools/browser-setup.ts';
import { hasSandbox, whyNot } from '../tools/sandbox.ts';
import { type Serving, serveWorkspace } from './serving.ts';

const ANSWER = JSON.stringify({ hash: '0'.repeat(64), decision: 'allow' });
const approvalUrl = ({ url }: Serving) => `${url}/api/sessions/victim/approvals/1`;

/**
 * A daemon whose session `victim` has a waiting call, and a server. The session `thief` makes the calls in `attack`.
 */
async function steal(
  place: Setup,
  settings: object,
  attack: (server: Serving) => Array<{ name: string; args: object }>,
): Promise<{ outputs: string[]; log: string; server: Serving }> {
  fs.mkdirSync(place.root, { mode: 0o700 });
  fs.writeFileSync(place.path('agentd.json'), JSON.stringify(settings));
  const server = await serveWorkspace(place, '--socket', place.path('.agentd', 'http.sock'));
  const calls = attack(server);
  const note = { name: 'write_file', args: { path: 'note.md', content: 'x' } };
  const answers = [
    { when: 'Write a note', calls: [note] },
    ...calls.map((call) => ({ when: 'Approve it', calls: [call] })),
    { when: 'Approve it', text: 'Given up.' },
  ];
  const daemon = await place.serve('--model', script(place, answers));
  await place.here(['send', 'victim', 'Write a note']);
  await place.replied('victim');
  await place.here(['send', 'thief', 'Approve it', '--wait']);
  const log = (await place.here(['log', 'thief', '--json'])).out;
  const outputs = log.split('\n').filter((line) => line.includes('"tool.finished"'));
  daemon.child.kill('SIGTERM');
  await daemon.ended;
  expect(outputs).toHaveLength(calls.length);
  expect(log).not.toContain(server.token);
  expect(JSON.parse((await server.ask('GET', '/api/sessions/victim/approvals')).text)).toMatchObject([{ id: 1 }]);
  return { outputs, log, server };
}

test("the agent's own shell can read no token, open no socket of the server, and approve no call", async (context) => {
  context.skip(!hasSandbox, whyNot);
  const place = setup();
  // The worst case: commands may use the network of this machine.
  const settings = {
    ...{ sandbox: 'bwrap', network: { shell: true } },
    permissions: [{ allow: 'shell(*)' }, { ask: 'write_file' }],
  };
  const { outputs } = await steal(place, settings, (server) =>
    [
      `cat ${place.path('.agentd', 'token')} ../../../.agentd/token; true`,
      `grep -rs . ${place.path('.agentd')} ../../../.agentd; echo "found $?"`,
      `curl -s -m 5 ${server.url}/api/sessions; echo "exit $?"`,
      `curl -s -m 5 -H 'Content-Type: application/json' -d '${ANSWER}' ${approvalUrl(server)}; echo "exit $?"`,
      `curl -s -m 5 --unix-socket ${place.path('.agentd', 'http.sock')} http://localhost/api/sessions; echo "exit $?"`,
    ].map((command) => ({ name: 'shell', args: { command } })),
  );
  expect(outputs[0]).toContain('No such file');
  expect(outputs[1]).toMatch(/found [12]/);
  expect(outputs[2]).toMatch(/Token required|exit [1-9]/);
  expect(outputs[3]).toMatch(/Token required|exit [1-9]/);
  expect(outputs[4]).toMatch(/exit [1-9]/);
});

browserTest("the agent's web_fetch and browser approve no call, not even through a page of another site", async () => {
  const place = setup();
  let target = '';
  const site = createServer((_, answer) => {
    answer.setHeader('content-type', 'text/html');
    answer.end(`<form method="post" enctype="text/plain" action="${target}"><input name='${ANSWER.slice(0, -1)}, "x' value='":1}'></form>
      <script>
        const post = (type) => fetch("${target}", { method: "POST", mode: "no-cors", body: '${ANSWER}', headers: { "content-type": type } });
        Promise.allSettled([post("text/plain"), post("application/json")]).then(() => document.forms[0].submit());
      </script>`);
  });
  const port = await listen(site);
  // The worst case: the web tools may reach this machine.
  const settings = {
    ...{ sandbox: 'none', network: { allow_private: ['127.0.0.1'] } },
    permissions: [{ allow: 'browser' }, { allow: 'web_fetch' }, { ask: 'write_file' }],
  };
  const { outputs } = await steal(place, settings, (server) => {
    target = approvalUrl(server);
    const page = `http://127.0.0.1:${port}/`;
    return [
      { name: 'web_fetch', args: { url: `${server.url}/api/sessions/victim/approvals` } },
      { name: 'browser', args: { action: 'navigate', url: `${server.url}/api/sessions/victim/approvals` } },
      { name: 'browser', args: { action: 'navigate', url: page } },
      { name: 'browser', args: { action: 'wait', text: 'Not allowed', seconds: 10 } },
      { name: 'browser', args: { action: 'snapshot' } },
    ];
  });
  expect(outputs[0]).toMatch(/401|Token required/);
  expect(outputs[1]).toMatch(/401|Token required/);
  expect(outputs[4]).toContain('Not allowed');
});
