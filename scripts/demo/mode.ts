import { mkdirSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import type { Scenario } from '../modes/scenario.ts';
import { say, setStage } from './stage.ts';

/** Demonstrates a planning mode by its test scenario, with a scripted model and real tools. */
export async function modeDemo({ message, config, script, files }: Scenario): Promise<void> {
  const stage = setStage(config);
  const answers = join(stage.workspace, 'script.json');
  writeFileSync(answers, JSON.stringify(script, null, 2));
  console.log(`The model is scripted, ${answers}: what it says is written down, what it does is real.`);
  for (const [name, text] of Object.entries(files)) {
    const path = join(stage.session, 'work', name);
    mkdirSync(dirname(path), { recursive: true });
    writeFileSync(path, text);
  }
  await stage.start('--model', `scripted:${answers}`);

  say(`$ echo "${message}" > .sessions/demo/inbox/1.md`);
  stage.drop('1.md', message);
  say('plan.json, as it advances:');
  await stage.follow('1.md');

  say('$ agentctl list');
  stage.agentctl('list');
  say('$ agentctl show demo');
  stage.agentctl('show', 'demo');
  await stage.end();
  console.log(`\nEverything else: ls -R ${stage.session}`);
}
