// Written by `npm run docs`: changes with any file the fold is made of. A snapshot of another version is not believed.
export const FOLD_VERSION = '90b763e9d87d9239';
