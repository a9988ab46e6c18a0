import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { startSite, YEARS } from './site.ts';
import { say, setStage } from './stage.ts';
import { task } from './task.ts';

const SLICE = 7;

/** The main demo: a runbook with a pause half-way, against a small web site on loopback. */
export async function runbookDemo(): Promise<void> {
  const stage = setStage({ model: { name: 'runbook' }, limits: { iterations: SLICE } });
  console.log(`It also says "limits": { "iterations": ${SLICE} }, so that the run will pause half-way.`);
  const site = await startSite();
  say(`A web site with the annual results of ${YEARS[0]} to ${YEARS.at(-1)}: ${site.url}`);
  await stage.start();

  say('$ cp task.md .sessions/demo/inbox/');
  stage.drop('task.md', task(site.url, YEARS));
  say('plan.json, as it advances:');
  await stage.follow('task.md');

  say('$ agentctl continue demo --wait');
  stage.agentctl('continue', 'demo', '--wait');
  say('$ agentctl show demo');
  stage.agentctl('show', 'demo');
  await stage.end();
  site.close();

  const chart = join(stage.session, 'work', 'chart.svg');
  if (!existsSync(chart)) throw new Error(`${chart} is missing`);
  say(`The chart: ${chart}`);
  console.log(`Everything else: ls -R ${stage.session}`);
}
