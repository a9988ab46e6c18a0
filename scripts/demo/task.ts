import { CHART, extract } from './commands.ts';

const inFence = (command: string): string => command.replace(/^/gm, '   ');

/** The demo task as a runbook: fetch five annual reports, extract the figures, draw a chart. */
export const task = (
  site: string,
  years: string[],
): string => `Fetch the annual results, extract the figures and draw them as a chart.

1. Fetch the pages of ${years[0]} to ${years.at(-1)}

   \`\`\`
   cat > fetch.mjs <<'END'
   import { mkdir, writeFile } from 'node:fs/promises';
   await mkdir('pages', { recursive: true });
   for (const year of ${JSON.stringify(years)}) {
     const answer = await fetch('${site}/annual/' + year + '.html');
     if (!answer.ok) throw new Error(year + ': ' + answer.status);
     await writeFile('pages/' + year + '.html', await answer.text());
   }
   console.log('fetched ${years.length} pages into pages/');
   END
   node fetch.mjs
   \`\`\`

2. Extract revenues and profits

   \`\`\`
${inFence(extract('pages'))}
   \`\`\`

3. Look at the figures: \`cat figures.csv\`

4. Draw the chart

   \`\`\`
${inFence(CHART)}
   \`\`\`

5. Check what is there: \`wc -c figures.csv chart.svg\`
`;
