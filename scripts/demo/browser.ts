import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { z } from 'zod';
import { errorText } from '../../src/base/user-error.ts';
import { findBrowser } from '../../src/tools/browser/find-browser.ts';
import { CHART, extract } from './commands.ts';
import { startInvestorSite } from './investor-site.ts';
import { YEARS } from './site.ts';
import { say, setStage } from './stage.ts';

const ASKED = 'Download the annual results from the investor page, extract the figures and draw them as a chart';

/**
 * A typical task on pages that only a browser can read: download reports behind a cookie banner, extract their figures,
 * draw a chart. The model is scripted, everything else is real. Without Chromium it only says so.
 */
export async function browserDemo(): Promise<void> {
  const chromium = chromiumHere();
  if (chromium === undefined) return;
  const site = await startInvestorSite();
  const rule = `browser(${site.url}/*)`;
  const stage = setStage({ network: { allow_private: ['127.0.0.1'] }, permissions: [{ allow: rule }] });
  console.log(
    `It also lets the browser, ${chromium}, reach 127.0.0.1, which it would refuse by default, and go to this site`,
  );
  console.log(`without asking: {"permissions": [{"allow": "${rule}"}]}.`);
  say(`An investor page, made by scripts, under a cookie banner of OneTrust: ${site.url}`);
  const answers = join(stage.workspace, 'script.json');
  writeFileSync(answers, JSON.stringify(script(site.url), null, 2));
  console.log(`The model is scripted, ${answers}: what it says is written down, what it does is real.`);
  await stage.start('--model', `scripted:${answers}`);

  say(`$ echo "${ASKED}" > .sessions/demo/inbox/1.md`);
  stage.drop('1.md', `${ASKED}\n`);
  say('plan.json, as it advances:');
  await stage.follow('1.md');
  say('What the browser told the model:');
  for (const line of browserResults(stage.session, site.url)) console.log(`  ${line}`);
  say('$ agentctl show demo');
  stage.agentctl('show', 'demo');
  await stage.end();
  site.close();

  console.log(`\nThe site was told of cookies: ${[...site.consents].join(', ')}`);
  const chart = join(stage.session, 'work', 'chart.svg');
  if (!existsSync(chart)) throw new Error(`${chart} is missing`);
  say(`The chart: ${chart}`);
  console.log(`Everything else: ls -R ${stage.session}`);
}

function chromiumHere(): string | undefined {
  try {
    return findBrowser(undefined, process.env);
  } catch (error) {
    console.error(`This demonstration needs a browser. ${errorText(error)}`);
    process.exitCode = 1;
    return undefined;
  }
}

const call = (name: string, args: object) => ({ name, args });

/** The page has one link per year, so their numbers are known in advance. */
export const script = (url: string): object[] => [
  {
    text: '[Step] Open the investor page\n[Step] Download the reports\n[Step] Extract the figures\n[Step] Draw the chart',
    calls: [call('browser', { action: 'navigate', url })],
  },
  {
    text: `The page lists ${YEARS.length} reports. [Done]`,
    calls: YEARS.map((_, n) => call('browser', { action: 'download', ref: `e${n + 1}` })),
  },
  {
    text: `[Done] All ${YEARS.length} are in work/downloads/`,
    calls: [call('shell', { command: `${extract('downloads')}\ncat figures.csv` })],
  },
  { text: `[Done] ${YEARS.length} years in work/figures.csv`, calls: [call('shell', { command: CHART })] },
  { text: '[Done] The chart is in work/chart.svg, its figures in work/figures.csv.' },
];

const Finished = z.object({ type: z.literal('tool.finished'), output: z.object({ text: z.string() }) });

/** The browser's first answer, and from the others what was downloaded. Each begins with the page's URL. */
function browserResults(session: string, url: string): string[] {
  return readFileSync(join(session, 'events.jsonl'), 'utf8')
    .trim()
    .split('\n')
    .flatMap((line) => Finished.safeParse(JSON.parse(line)).data?.output.text ?? [])
    .filter((text) => text.startsWith(url))
    .flatMap((text, n) => text.split('\n').filter((line) => n === 0 || line.startsWith('[downloaded')));
}
