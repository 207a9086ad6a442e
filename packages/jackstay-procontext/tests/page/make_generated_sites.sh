#!/usr/bin/env bash
# Write generated_sites.zip: small sites of generators that the development environment does not have.
# Needs javadoc, rustdoc, typedoc, pdoc, sphinx-build with sphinx-tabs, mike, mkdocs, git, npm and python3.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
mkdir -p java/harbour rust ts py/harbour tabs mike/docs site

cat >java/harbour/Pier.java <<'SOURCE'
package harbour;

import java.util.List;

/** A pier to which boats are moored.
 *  <p>Use {@link #moor(String, int)} to tie up. */
public class Pier {
    /** Boats now. */
    public int boats;
    /** Creates a pier.
     * @param berths the number of berths */
    public Pier(int berths) {}
    /** Ties a boat up.
     * @param boat its name
     * @param lines the number of lines
     * @return whether it holds
     * @throws DockException if the pier is full */
    public boolean moor(String boat, int lines) throws DockException { return true; }
    /** Lists the berths.
     * @return all berths */
    public List<String> berths() { return List.of(); }
}
SOURCE
cat >java/harbour/DockException.java <<'SOURCE'
package harbour;
/** The pier is full. */
public class DockException extends Exception { }
SOURCE
javadoc -quiet -d site/javadoc -sourcepath java harbour

cat >rust/lib.rs <<'SOURCE'
//! Berths for boats.

/// A pier to which boats are moored.
#[derive(Clone)]
pub struct Pier {
    /// Number of berths.
    pub berths: usize,
}

/// The pier is full.
pub struct DockError;

impl Pier {
    /// Ties a boat up.
    ///
    /// # Examples
    ///
    /// ```
    /// harbour::Pier { berths: 1 }.moor("Anna");
    /// ```
    pub fn moor<T>(&self, boat: T) -> Result<usize, DockError> where T: AsRef<str> { Ok(boat.as_ref().len()) }
}

/// Signals.
pub mod signals {
    /// Hoists a flag.
    pub fn hoist(flag: &str) {}
}
SOURCE
rustdoc rust/lib.rs --crate-name harbour --crate-version 1.2.3 --edition 2021 -o site/rustdoc

cat >ts/index.ts <<'SOURCE'
/** A pier to which boats are moored. */
export class Pier {
  /** Creates a pier.
   * @param berths The number of berths. */
  constructor(readonly berths: number) {}
  /** Ties a boat up.
   * @example
   * ```ts
   * new Pier(1).moor("Anna");
   * ```
   */
  moor(boat: string): boolean { return boat.length > 0; }
}
/** Hoists a flag. */
export function hoist(flag: string): void {}
SOURCE
echo '{"compilerOptions": {"target": "es2022", "strict": true}, "files": ["index.ts"]}' >ts/tsconfig.json
echo '{"name": "harbour", "version": "1.2.3"}' >ts/package.json
printf '# Harbour\n\nTie boats up.\n' >ts/README.md
(cd ts && typedoc --logLevel Error --includeVersion --out ../site/typedoc index.ts)

cat >py/harbour/__init__.py <<'SOURCE'
"""Berths for boats."""

from harbour import signals


class Pier:
    """A pier to which boats are moored."""

    def moor(self, boat: str, *, lines: int = 2) -> bool:
        """Tie a boat up."""
        return True
SOURCE
cat >py/harbour/signals.py <<'SOURCE'
"""Signals."""


def hoist(flag: str) -> None:
    """Hoist a flag."""
SOURCE
(cd py && pdoc -o ../site/pdoc harbour)

echo 'project = "Harbour"; extensions = ["sphinx_tabs.tabs"]' >tabs/conf.py
cat >tabs/index.rst <<'SOURCE'
Harbour
=======

.. tabs::

   .. tab:: Bash

      .. code-block:: bash

         eval "$(foo bash)"

   .. tab:: Zsh

      .. code-block:: zsh

         eval "$(foo zsh)"

Terms
-----

berth
   A place for a boat.

.. toctree::

   guide
SOURCE
printf 'Guide\n=====\n\nTie up.\n' >tabs/guide.rst
sphinx-build -q -b html tabs site/sphinx
sphinx-build -q -b dirhtml tabs site/dirhtml
rm site/sphinx/objects.inv site/dirhtml/objects.inv

cd mike
git init -q -b main
git -c user.name=a -c user.email=a@example.org commit -q --allow-empty -m start
export GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a@example.org GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@example.org
printf 'site_name: Harbour\nsite_url: https://harbour.example/\ntheme: {name: mkdocs}\nplugins: [search, mike: {alias_type: redirect}]\n' >mkdocs.yml
page=index.md
for version in 1.0 2.0; do
    printf '# Harbour %s\n\nTie boats up.\n' "$version" >"docs/$page"
    mike -q deploy --update-aliases "$version" latest
done
mike -q set-default latest
git worktree add -q ../site/mike gh-pages
rm ../site/mike/.git

cd ..
mkdir -p docusaurus/docs
cd docusaurus
# A newer webpack refuses the options of this Docusaurus.
echo '{"private": true}' >package.json
npm install --ignore-scripts --no-audit --no-fund --loglevel=error --legacy-peer-deps @docusaurus/core@3.7.0 \
    @docusaurus/preset-classic@3.7.0 react@18 react-dom@18 webpack@5.95.0
cat >docusaurus.config.js <<'SOURCE'
module.exports = {
  title: "Harbour", url: "https://harbour.example", baseUrl: "/", onBrokenLinks: "ignore",
  presets: [["classic", { docs: { includeCurrentVersion: false, routeBasePath: "/", sidebarPath: "./sidebars.js" }, blog: false, theme: {} }]],
  themeConfig: { navbar: { title: "Harbour", items: [{ type: "docsVersionDropdown" }] } },
};
SOURCE
cat >sidebars.js <<'SOURCE'
module.exports = { docs: [{ type: "autogenerated", dirName: "." }] };
SOURCE
cd docs
cat >index.md <<'SOURCE'
---
slug: /
title: Harbour
---

A port. See [docking](./docking.mdx).
SOURCE
cat >docking.mdx <<'SOURCE'
import Tabs from '@theme/Tabs';
import TabItem from '@theme/TabItem';

# Docking

## Moor a boat {#moor}

<Tabs>
<TabItem value="py" label="Python">

```python title="moor.py"
harbour.moor("Ada")
```

</TabItem>
<TabItem value="js" label="JavaScript">

```js
harbour.moor("Grace");
```

</TabItem>
</Tabs>

:::warning Tide

Mind the tide.

:::

| rope | length |
|---|---|
| bow | 8 m |
SOURCE
cd ..
npx docusaurus docs:version 1.0
sed -i 's/Mind the tide/Mind the new tide/' docs/*.mdx
npx docusaurus docs:version 2.0
npx docusaurus build --out-dir ../site/docusaurus

# Only the pages and the files that list them, without style sheets and scripts of the themes.
cd ../site
python3 - "$here/generated_sites.zip" <<'SOURCE'
import re
import sys
import zipfile
from pathlib import Path

UNUSED = ("/static.files/", "/src/", "genindex", "/search.html", "/search/index.html", "help", "settings.html", "-tree", "index-all")
LISTS = ("navigation.js", "searchindex.js", "search_index.json", "versions.json", "pdoc/search.js", "docusaurus/sitemap.xml")
with zipfile.ZipFile(sys.argv[1], "w", zipfile.ZIP_DEFLATED) as archive:
    for file in sorted(Path().rglob("*")):
        name = file.as_posix()
        if not file.is_file() or not name.endswith((".html", *LISTS)) or any(part in name for part in UNUSED):
            continue
        text = re.sub(r"<style>.*?</style>", "", file.read_text(), flags=re.DOTALL)
        if name == "pdoc/search.js":
            text = text[text.index("/** pdoc search index */") :]
        archive.writestr(zipfile.ZipInfo(name, (2026, 1, 1, 0, 0, 0)), text, zipfile.ZIP_DEFLATED, 9)
SOURCE
