import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { realClock } from '../../src/daemon/host/clock.ts';
import type { ToolResult } from '../../src/engine/ports/tool-ports.ts';
import { openLiveSettings } from '../../src/main/live-settings.ts';
import { logEachOnce, openSessionNotes } from '../../src/main/session-notes.ts';
import type { Config } from '../../src/protocol/settings/config.ts';
import { openSkillStore, openWorkspace } from '../../src/store/index.ts';
import { builtinTools, createToolbox } from '../../src/tools/index.ts';
import { temporaryFolder } from '../support/temporary.ts';

/** A workspace on disk, and in it sessions whose tools are the real ones. Removed after the test. */
export function setup(config: Config = {}) {
  const root = temporaryFolder('notes');
  const clock = { ...realClock, now: () => new Date('2026-03-04T10:00:00Z') };
  const workspace = openWorkspace(root, { now: clock.now });
  const skills = openSkillStore(workspace.paths.skills);
  const complaints: string[] = [];
  const warnOnce = logEachOnce((text) => complaints.push(text));

  const settings = openLiveSettings({
    ...{ workspace, flags: {}, env: {}, log: () => {}, learn: () => {}, wake: () => {}, clock },
    configFile: 'agentd.json',
    readConfig: () => JSON.stringify(config),
    runGuarded: (_name, _what, run) => run(),
  });

  const put = (path: string, text: string) => {
    mkdirSync(dirname(join(root, path)), { recursive: true });
    writeFileSync(join(root, path), text);
    return join(root, path);
  };
  const text = (path: string) => (existsSync(join(root, path)) ? readFileSync(join(root, path), 'utf8') : undefined);

  const session = (name: string) => {
    mkdirSync(join(root, '.sessions', name, 'work'), { recursive: true });
    const notes = openSessionNotes(name, {
      ...{ workspace, skills, clock, warnOnce },
      config: settings.config,
      effective: settings.forSession(name),
    });
    const box = createToolbox(builtinTools({ readAlso: [], notes: notes.tools }));
    const work = join(root, '.sessions', name, 'work');
    const use = (tool: string, args: unknown, signal = new AbortController().signal): Promise<ToolResult> =>
      box.run(
        { name: tool, args: JSON.stringify(args) },
        { work, folder: join(root, 'call'), signal, blob: async () => undefined },
      );
    return { reported: notes.current, use, work, box };
  };
  return { root, put, text, session, complaints, clock, workspace };
}

/** A reply as the daemon writes it into an outbox. */
export const reply = (text: string, { plan, status = 'done' }: { plan?: string; status?: string } = {}) =>
  `---\nid: 1.md\nin_reply_to: 1.md\nsession: x\nstatus: ${status}\nplan: ${plan ? `{"id":"${plan}","completed":1,"total":1,"current":null}` : 'null'}\nusage: null\nattachments: []\n---\n\n${text}\n`;

export const plan = (id: string, goal: string, steps: string[] = [], status = 'completed') =>
  JSON.stringify({ id, goal, status, steps: steps.map((description) => ({ description, result: 'done so' })) });
