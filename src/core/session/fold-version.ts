// Written by `npm run docs`: changes with any file the fold is made of. A snapshot of another version is not believed.
export const FOLD_VERSION = '4e63cb05c2d1fa0e';
