/** Writes figures.csv from the pages in a folder of `work/`, one `<year>.html` each. */
export const extract = (folder: string): string => `cat > extract.mjs <<'END'
import { readdir, readFile, writeFile } from 'node:fs/promises';
const figure = (html, label) => Number(new RegExp('<td>' + label + '[^<]*</td><td>([\\\\d,]+)').exec(html)[1].replaceAll(',', ''));
const rows = ['year,revenue,profit'];
for (const file of (await readdir('${folder}')).sort()) {
  const html = await readFile('${folder}/' + file, 'utf8');
  rows.push([file.slice(0, 4), figure(html, 'Revenues'), figure(html, 'Profit attributable')].join(','));
}
await writeFile('figures.csv', rows.join('\\n') + '\\n');
console.log(rows.length - 1 + ' years in figures.csv');
END
node extract.mjs`;

/** Draws chart.svg from figures.csv. */
export const CHART = `cat > chart.mjs <<'END'
import { readFile, writeFile } from 'node:fs/promises';
const rows = (await readFile('figures.csv', 'utf8')).trim().split('\\n').slice(1).map((line) => line.split(',').map(Number));
const top = Math.max(...rows.map((row) => row[1]));
const bar = (x, value, colour) => {
  const height = Math.round((value / top) * 260);
  return '<rect x="' + x + '" y="' + (320 - height) + '" width="36" height="' + height + '" fill="' + colour + '"/>' +
    '<text x="' + (x + 18) + '" y="' + (314 - height) + '">' + Math.round(value / 1000) + '</text>';
};
const years = rows.map(([year, revenue, profit], n) => bar(60 + n * 110, revenue, '#2563eb') + bar(100 + n * 110, profit, '#f59e0b') +
  '<text x="' + (98 + n * 110) + '" y="342">' + year + '</text>').join('\\n');
await writeFile('chart.svg', '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 640 380" font-family="sans-serif" font-size="13" text-anchor="middle">' +
  '<rect width="640" height="380" fill="white"/><text x="320" y="28" font-size="17">Tencent: revenues (blue) and profit (amber), RMB billion</text>' + years +
  '<text x="320" y="368" font-size="11" fill="#666">Source: annual results announcements, audited</text></svg>\\n');
console.log('chart.svg with ' + rows.length + ' years');
END
node chart.mjs`;
